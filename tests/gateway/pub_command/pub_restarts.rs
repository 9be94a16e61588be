//! The client crate's publisher while gateways come and go.

use std::{collections::BTreeMap, time::Duration};

use ackgate_client::{NotWrittenKind, Outgoing, PublishStats, Publisher, PublisherBuilder};

use super::gateway;
use crate::support::{Case, Gateway, Stage, Topic, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        embedded: unanswered_records_are_the_unknown_ones_when_the_gateway_is_killed,
            nothing_is_lost_over_a_kill_if_unanswered_records_are_sent_again,
            gateways_that_stop_one_after_the_other_cost_no_record;
    ]
}

const RECORDS: usize = 3_000;

/// What was said of a record: its offset, or why it has none.
type Said = Result<i64, NotWrittenKind>;

/// Sends numbered records, and after the first and the second thousand lets the gateway go
/// and come back: what was said of each, and the counts. There is one writer.
async fn say(
    publisher: Publisher,
    topic: &Topic,
    gateway: &mut Gateway,
    mut comes_back: impl AsyncFnMut(&mut Gateway),
) -> (Vec<Said>, PublishStats) {
    let mut receipts = Vec::new();
    for number in 0..RECORDS {
        if number == 1_000 || number == 2_000 {
            comes_back(gateway).await;
        }
        let record = Outgoing::new(&topic.name, number.to_string());
        receipts.push(publisher.send(record).await);
    }
    let mut said = Vec::new();
    for receipt in receipts {
        said.push(match receipt.await {
            Ok(written) => Ok(written.offset.unwrap()),
            Err(error) => Err(error.kind),
        });
    }
    (said, publisher.close(Duration::from_secs(20)).await)
}

fn builder(gateway: &Gateway) -> PublisherBuilder {
    Publisher::builder(format!("http://{}", gateway.address))
        .backoff(Duration::from_millis(20), Duration::from_millis(200))
        .max_in_flight(200, 1 << 20)
}

/// How often each number is in the topic, and at which offsets.
async fn places(stage: &Stage, topic: &Topic) -> BTreeMap<usize, Vec<i64>> {
    let mut places: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for seen in stage.broker.read(&topic.name).await {
        let number = String::from_utf8(seen.value.unwrap()).unwrap();
        let number = number.parse().unwrap();
        places.entry(number).or_default().push(seen.offset);
    }
    places
}

async fn unanswered_records_are_the_unknown_ones_when_the_gateway_is_killed(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).connect().await.unwrap();
    let (said, stats) = say(publisher, &topic, &mut gateway, Gateway::kill_and_restart).await;
    let count = |wanted: fn(&Said) -> bool| said.iter().filter(|it| wanted(it)).count() as u64;
    assert_eq!(stats.written, count(|it| it.is_ok()));
    assert_eq!(
        stats.unknown,
        count(|it| *it == Err(NotWrittenKind::Unknown))
    );
    assert_eq!(stats.written + stats.unknown, RECORDS as u64, "{stats}");
    assert!(stats.reconnects >= 2);
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        let found = places.get(&number).map_or(&[][..], Vec::as_slice);
        match said {
            // There, once, where it was said to be.
            Ok(offset) => assert_eq!(found, [*offset], "record {number}"),
            Err(_) => assert!(found.len() <= 1, "record {number} at {found:?}"),
        }
    }
}

async fn nothing_is_lost_over_a_kill_if_unanswered_records_are_sent_again(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).retry_unanswered(true).connect().await;
    let publisher = publisher.unwrap();
    let (said, stats) = say(publisher, &topic, &mut gateway, Gateway::kill_and_restart).await;
    assert!(stats.is_complete(), "{stats}");
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        let offset = said.expect("every record is written");
        assert!(places[&number].contains(&offset), "record {number}");
    }
}

async fn gateways_that_stop_one_after_the_other_cost_no_record(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).connect().await.unwrap();
    let (said, stats) = say(publisher, &topic, &mut gateway, async |gateway| {
        gateway.terminate();
        gateway.restart().await;
    })
    .await;
    assert!(stats.is_complete(), "{stats}");
    assert!(stats.reconnects >= 2);
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        assert_eq!(places[&number], [said.expect("written")], "record {number}");
    }
}
