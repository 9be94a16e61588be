//! Late, repeated and unknown verdicts, many verdicts at once, and what records that
//! fail or kill their subscribers cost.

use std::time::{Duration, Instant};

use ackgate_proto::v1::{Outcome, Settle, Verdict, VerdictResult, subscribe_request::Request};
use prost_types::Duration as Wire;
use tonic::Code;

use crate::support::{Case, Outgoing, Received, Stage, Stream, cases, reason};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: record_that_kills_its_subscribers_is_dead_lettered;
        embedded: four_verdicts_on_one_stream_have_four_answers,
            fifty_thousand_verdicts_settle_in_frames_of_the_advertised_size,
            waiting_record_holds_no_credit_and_comes_no_earlier_than_it_was_told;
    ]
}

async fn with_credit(address: std::net::SocketAddr, records: u32) -> Stream {
    let mut open = Stream::hello("orders");
    open.credit.as_mut().expect("a credit").records = records;
    Stream::open(address, open).await
}

// FC-32.
async fn four_verdicts_on_one_stream_have_four_answers(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2"]).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_secs(1));
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(3).await;
    stream.ack(&records[0]).await;
    // The other two pass their deadline and are handed out again.
    let again = stream.records(2).await;
    assert!(again.iter().all(|one| one.delivery == 2), "{again:?}");
    let numbered = |record: &Received, delivery| Verdict {
        delivery: Some(delivery),
        ..record.verdict(Outcome::Acked)
    };
    let never = Verdict {
        first_offset: 77,
        ..records[0].verdict(Outcome::Acked)
    };
    let valid: Vec<Verdict> = again.iter().map(|one| numbered(one, 2)).collect();
    let verdicts = vec![
        numbered(&records[0], 1),
        never,
        numbered(&records[1], 1),
        valid[1].clone(),
    ];
    let answers = stream.settle(verdicts).await.answers;
    let plain: Vec<_> = answers
        .iter()
        .map(|answer| (answer.first_offset, answer.result()))
        .collect();
    assert_eq!(
        plain,
        [
            (0, VerdictResult::Duplicate),
            (77, VerdictResult::Unknown),
            (1, VerdictResult::Expired)
        ]
    );
    stage.commits(&topic, 0, 1).await;
    assert_eq!(stream.settle(vec![valid[0].clone()]).await.answers, []);
    stage.commits(&topic, 0, 3).await;
}

// FC-81.
async fn fifty_thousand_verdicts_settle_in_frames_of_the_advertised_size(stage: Stage) {
    const EACH: usize = 10_000;
    let topic = stage.topic("orders", 5).await;
    for partition in 0..5 {
        let records = (0..EACH).map(|n| Outgoing::value(partition, n.to_string()));
        stage.broker.produce(&topic.name, records).await;
    }
    let subscription = stage
        .subscription(&topic)
        .set("window.records", "10000")
        .set("ack_deadline", "\"10m\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(5 * EACH).await;
    let verdicts = |records: &[Received]| -> Vec<Verdict> {
        let each = records.iter().map(|one| one.verdict(Outcome::Acked));
        each.collect()
    };
    let all = Settle {
        sequence: 1,
        verdicts: verdicts(&records),
    };
    stream.send(Request::Settle(all)).await;
    let status = stream.status().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(&status), "TOO_MANY_VERDICTS");
    assert!(status.message().contains("10000"), "{status:?}");

    let mut stream = gateway.open().await;
    let settings = stream.opened.as_ref().and_then(|it| it.settings.as_ref());
    let most = settings.map(|settings| settings.max_verdicts as usize);
    assert_eq!(most, Some(10_000), "it is advertised");
    let records = stream.records(5 * EACH).await;
    assert!(
        records.iter().all(|one| one.delivery == 2),
        "nothing of the refused frame was applied"
    );
    for frame in records.chunks(most.unwrap_or(1)) {
        assert_eq!(stream.settle(verdicts(frame)).await.answers, []);
    }
    for partition in 0..5 {
        stage.commits(&topic, partition, EACH as i64).await;
    }
}

// FC-33, L6: a crash uses a delivery, and deliveries are bounded.
async fn record_that_kills_its_subscribers_is_dead_lettered(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let values: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    stage.produce(&topic, &values).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .max_attempts(3)
        .set("max_deliveries", "3");
    let gateway = stage.gateway(&[subscription]).await;
    let mut next = 0;
    for deaths in 1..=3 {
        let mut stream = with_credit(gateway.address, 1).await;
        // The gateway may hand out what comes after it before it learns of a death.
        let record = loop {
            let record = stream.record().await;
            if record.offset == 7 {
                break record;
            }
            assert_eq!(record.offset, next, "{record:?}");
            next += if next == 6 { 2 } else { 1 };
            stream.ack(&record).await;
        };
        assert_eq!(record.delivery, deaths, "{record:?}");
        assert_eq!(record.attempt, 1, "a crash uses no attempt");
        drop(stream);
    }
    let letters = stage.holds(&dead, 1).await;
    assert_eq!(letters[0].value.as_deref(), Some(&b"7"[..]));
    let mut fourth = with_credit(gateway.address, 1).await;
    if next == 8 {
        let last = fourth.record().await;
        assert_eq!(last.offset, 8, "the fourth never sees it");
        fourth.ack(&last).await;
    }
    let more = fourth.within(Duration::from_millis(500)).await;
    assert!(more.is_empty(), "{more:?}");
    stage.commits(&topic, 0, 9).await;
}

// FC-38, L8, L10.
async fn waiting_record_holds_no_credit_and_comes_no_earlier_than_it_was_told(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let subscription = stage
        .subscription(&topic)
        .max_attempts(6)
        .backoff(Duration::from_millis(200));
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = with_credit(gateway.address, 1).await;
    let first = stream.record().await;
    let mut failed = first.verdict(Outcome::Failed);
    failed.retry_after = Some(Wire {
        seconds: 3,
        nanos: 0,
    });
    let begun = Instant::now();
    assert_eq!(stream.settle(vec![failed]).await.answers, []);
    let other = stream.record().await;
    assert_eq!(other.offset, 1, "the only place is free while it waits");
    stream.ack(&other).await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.attempt), (0, 2));
    assert!(begun.elapsed() >= Duration::from_secs(3), "L10");
    // Without a wish of its own it is the backoff that decides.
    for attempt in 3..=5 {
        let verdict = again.verdict(Outcome::Failed);
        assert_eq!(stream.settle(vec![verdict]).await.answers, []);
        let next = stream.record().await;
        assert_eq!((next.offset, next.attempt), (0, attempt));
    }
    stream.ack(&again).await;
    stage.commits(&topic, 0, 2).await;
}
