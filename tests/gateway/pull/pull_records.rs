//! What a call brings, and what becomes of its records.

use std::time::{Duration, Instant};

use ackgate_proto::v1::{Confirm, Outcome, VerdictResult};
use tonic::Code;

use crate::support::{
    Case, Outgoing, Pulling, Stage, cases, eventually, reason, records_of, span, texts, throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: what_is_acked_is_committed_and_nothing_else,
            rejected_record_is_dead_lettered,
            null_and_empty_stay_different;
        embedded: lease_that_ends_brings_the_record_again_with_an_attempt_used,
            extension_keeps_the_lease,
            call_brings_no_more_records_and_bytes_than_it_asks_for,
            wait_ends_with_the_first_record_and_at_its_limit,
            call_ends_before_its_own_deadline,
            durable_answer_waits_for_the_commit;
    ]
}

async fn what_is_acked_is_committed_and_nothing_else(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.produce_to(&topic, 0, &["a", "b", "c"]).await;
    stage.produce_to(&topic, 1, &["d"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let mut records = puller.records(4).await;
    records.sort_by_key(|one| (one.partition, one.offset));
    assert_eq!(texts(&records), ["a", "b", "c", "d"]);
    puller.ack(&records[..1]).await;
    puller.ack(&records[2..]).await;
    stage.commits(&topic, 0, 1).await;
    stage.commits(&topic, 1, 1).await;
    // Nothing is left, and b is out.
    assert!(puller.pull_now().await.is_empty());
    puller.ack(&records[1..2]).await;
    stage.commits(&topic, 0, 3).await;
    puller.close().await;
}

async fn rejected_record_is_dead_lettered(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["good", "bad"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.subscriber_id = "nightly".to_owned();
    let records = puller.records(2).await;
    puller.ack(&records[..1]).await;
    let mut rejected = records[1].verdict(Outcome::Rejected);
    rejected.code = "bad-total".to_owned();
    let answers = puller.settle(vec![rejected], Confirm::Durable).await;
    assert_eq!(answers.expect("it is durable"), []);
    // It is, so both are there already.
    let letters = stage.broker.read(&dead.name).await;
    assert_eq!(letters.len(), 1);
    let header = |name: &str| letters[0].header(&format!("ackgate.dead-letter.{name}"));
    assert_eq!(header("code"), Some("bad-total"));
    assert_eq!(header("subscriber"), Some("nightly"));
    assert_eq!(stage.committed(&topic, 0).await, Some(2));
}

async fn null_and_empty_stay_different(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let null = Outgoing::default();
    let empty = Outgoing::value(0, "").keyed("");
    stage.broker.produce(&topic.name, [null, empty]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(2).await;
    let parts = |at: usize| {
        (
            records[at].record.key.clone(),
            records[at].record.value.clone(),
        )
    };
    assert_eq!(parts(0), (None, None));
    assert_eq!(parts(1), (Some(Vec::new().into()), Some(Vec::new().into())));
}

async fn lease_that_ends_brings_the_record_again_with_an_attempt_used(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    // Time enough for a slow machine to answer the second delivery.
    puller.asks.ack_deadline = span(Duration::from_secs(4));
    let first = puller.records(1).await;
    let again = puller.records(1).await;
    assert_eq!(
        (again[0].offset, again[0].attempt, again[0].delivery),
        (0, 2, 2)
    );
    let numbered = |delivery| {
        let mut verdict = first[0].verdict(Outcome::Acked);
        verdict.delivery = Some(delivery);
        verdict
    };
    let late = puller.settle(vec![numbered(1)], Confirm::Applied).await;
    let late = late.expect("the session is there");
    assert_eq!(late[0].result(), VerdictResult::Expired);
    puller.ack(&again).await;
    stage.commits(&topic, 0, 1).await;
}

async fn extension_keeps_the_lease(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.ack_deadline = span(Duration::from_secs(4));
    let records = puller.records(1).await;
    let answers = puller.extend(&records, Duration::from_secs(60)).await;
    assert_eq!(answers.expect("the session is there"), []);
    throughout("the record stays out", Duration::from_secs(6), async || {
        let again = puller.pull_now().await;
        if again.is_empty() {
            Ok(())
        } else {
            Err(format!("{again:?}"))
        }
    })
    .await;
    let refused = puller.extend(&records, Duration::from_secs(601)).await;
    assert_eq!(refused.expect_err("too long").code(), Code::InvalidArgument);
    puller.ack(&records).await;
    let late = puller.extend(&records, Duration::from_secs(1)).await;
    assert_eq!(late.expect("the session is there").len(), 1);
}

async fn call_brings_no_more_records_and_bytes_than_it_asks_for(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let value = "x".repeat(1000);
    let values: Vec<&str> = (0..20).map(|_| value.as_str()).collect();
    stage.produce(&topic, &values).await;
    let large = Outgoing::value(0, "y".repeat(100_000));
    stage.broker.produce(&topic.name, [large]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.max_records = 3;
    assert_eq!(puller.pull().await.len(), 3);
    // What is out does not count against the next one.
    assert_eq!(puller.pull().await.len(), 3);
    puller.asks.max_records = 0;
    puller.asks.max_bytes = 5000;
    let answer = puller.call().await.expect("it may pull");
    assert_eq!(records_of(&answer).len(), 4);
    let rest = puller.records(10).await;
    assert_eq!(rest.len(), 10);
    // Larger than asked for: it comes, and nothing with it.
    let last = puller.pull().await;
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].text().len(), 100_000);
    for (field, wrong) in [
        ("pull.max_records", {
            let mut asks = puller.asks.clone();
            asks.max_records = 10_001;
            asks
        }),
        ("pull.wait", {
            let mut asks = puller.asks.clone();
            asks.wait = span(Duration::from_secs(61));
            asks
        }),
    ] {
        let status = puller.client.pull(wrong).await.expect_err(field);
        assert_eq!(reason(&status), "PULL_INVALID");
        assert!(status.message().contains(field), "{status:?}");
    }
}

async fn wait_ends_with_the_first_record_and_at_its_limit(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(1).await;
    puller.ack(&records).await;
    puller.asks.wait = span(Duration::from_secs(2));
    let begun = Instant::now();
    assert!(puller.pull().await.is_empty());
    assert!(begun.elapsed() >= Duration::from_secs(2));
    puller.asks.wait = span(Duration::from_secs(60));
    let mut other = puller.clone();
    let begun = Instant::now();
    let waiting = tokio::spawn(async move { other.pull_when_free().await });
    // It waits: a second call is refused.
    puller.is_refused_as_in_progress().await;
    stage.produce(&topic, &["b"]).await;
    let records = waiting.await.expect("it does not panic");
    assert_eq!(texts(&records), ["b"]);
    assert!(begun.elapsed() < Duration::from_secs(50));
}

async fn call_ends_before_its_own_deadline(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(1).await;
    puller.asks.wait = span(Duration::from_secs(60));
    // What is left for its way may be too little on a slow machine, but not each time.
    let answer = eventually("an answer before the deadline", async || {
        let mut request = tonic::Request::new(puller.asks.clone());
        request.set_timeout(Duration::from_secs(4));
        let answer = puller.client.pull(request).await;
        answer.map_err(|status| status.to_string())
    })
    .await;
    let answer = answer.into_inner();
    assert!(answer.batches.is_empty());
    assert_eq!(answer.session, puller.asks.session);
    puller.ack(&records).await;
}

async fn durable_answer_waits_for_the_commit(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let subscription = stage.subscription(&topic).set("commit.interval", "\"1m\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(2).await;
    puller.ack(&records[..1]).await;
    let verdicts = vec![records[1].verdict(Outcome::Acked)];
    let answers = puller.settle(verdicts.clone(), Confirm::Durable).await;
    assert_eq!(answers.expect("it is durable"), []);
    assert_eq!(stage.committed(&topic, 0).await, Some(2));
    // A repeat is told as one.
    let again = puller.settle(verdicts, Confirm::Durable).await;
    let again = again.expect("the session is there");
    assert_eq!(again[0].result(), VerdictResult::Duplicate);
}
