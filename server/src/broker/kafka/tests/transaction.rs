//! Commits through transactions that go wrong. The mock cluster keeps nothing of what is
//! committed by them, so it is only good for what is said of errors.

use std::time::Duration;

use bytes::Bytes;
use rdkafka::{types::RDKafkaApiKey as Api, types::RDKafkaRespErr as Code};

use super::support::{Member, Mock, mock, subscription};
use crate::{
    broker::{Assigned, Commit, Error, ErrorKind, Event, Outgoing},
    config::{Copying, DeadLetter, ExactlyOnce, StartAt, Subscription},
};

const TOPIC: &str = "orders";
const GROUP: &str = "group";

fn exactly_once() -> Subscription {
    let mut subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    subscription.policy.exactly_once = true;
    subscription.dead_letter = Some(DeadLetter {
        topic: "dead".to_owned(),
        retry_topic: None,
        copying: Copying::default(),
        exactly_once: Some(ExactlyOnce {
            transaction_timeout: Duration::from_secs(5),
            transactional_id: None,
        }),
        producer_properties: Vec::new(),
    });
    subscription
}

async fn member(mock: &Mock) -> (Member, Assigned) {
    mock.create_topic("dead", 3, 1).unwrap();
    let mut member = Member::join(&mock.bootstrap_servers(), &exactly_once());
    let lane = member.lane().await;
    (member, lane)
}

/// Commits with one letter and waits for the answer.
async fn commit(member: &mut Member, lane: &Assigned, position: u64) -> Result<(), Error> {
    let letter = Outgoing {
        topic: "dead".to_owned(),
        partition: Some(7),
        key: None,
        value: Some(Bytes::from_static(b"bad")),
        headers: Vec::new(),
        timestamp_ms: None,
    };
    let asked = Commit {
        generation: lane.generation,
        position: ackgate_lane::Position::new(position),
        serial: position,
        metadata: None,
        letters: vec![letter],
    };
    member.consumer.commit(vec![asked.clone()]);
    member
        .until(|event| match event {
            Event::Committed { commit, result } if commit == asked => Some(result),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn an_error_before_the_end_says_that_nothing_is_stored_and_the_next_try_is_another() {
    let mock = mock(TOPIC, 1);
    let (mut member, lane) = member(&mock).await;
    for (api, code, kind) in [
        (
            Api::TxnOffsetCommit,
            Code::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            ErrorKind::Transient,
        ),
        (
            Api::TxnOffsetCommit,
            Code::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
            ErrorKind::TooLarge,
        ),
        (
            Api::Produce,
            Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            ErrorKind::LetterTooLarge(0),
        ),
        (
            Api::Produce,
            Code::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
            ErrorKind::Operator,
        ),
    ] {
        mock.request_errors(api, &[code]);
        let error = commit(&mut member, &lane, 1).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code:?}: {error}");
        // The client library may need a try to get over it.
        let mut tries = 0;
        while let Err(error) = commit(&mut member, &lane, 1).await {
            tries += 1;
            assert!(tries < 5, "{code:?}: {error}");
        }
    }
    member.close().await;
}

#[tokio::test]
async fn an_error_that_may_be_repeated_is() {
    let mock = mock(TOPIC, 1);
    let (mut member, lane) = member(&mock).await;
    mock.request_errors(
        Api::TxnOffsetCommit,
        &[Code::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS],
    );
    assert!(commit(&mut member, &lane, 1).await.is_ok());
    member.close().await;
}

#[tokio::test]
async fn after_an_error_at_the_end_the_group_says_what_it_has() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let plain = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    let mut first = Member::join(&bootstrap, &plain);
    let lane = first.lane().await;
    first.commit(lane.generation, 7).await.unwrap();
    first.close().await;

    let (mut member, lane) = member(&mock).await;
    for (position, is_there) in [(8, false), (7, true), (9, false)] {
        mock.request_errors(Api::EndTxn, &[Code::RD_KAFKA_RESP_ERR_UNKNOWN]);
        let answer = commit(&mut member, &lane, position).await;
        assert_eq!(answer.is_ok(), is_there, "{position}: {answer:?}");
    }
    assert!(commit(&mut member, &lane, 9).await.is_ok());
    member.close().await;
}
