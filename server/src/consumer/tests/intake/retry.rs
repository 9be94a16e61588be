//! Records that were put back from a dead-letter topic.

use super::*;
use crate::headers::{NOT_BEFORE, REDRIVE};

/// The partition of the broker in memory that stands for the retry topic's.
const RETRY: i32 = Memory::RETRY;

fn with_retry(intake: Intake) -> Bench {
    let broker = Memory::default();
    broker.with(|state| {
        state.log.entry(0).or_default();
        state.log.entry(RETRY).or_default();
    });
    bench_on(broker, intake, |subscription| {
        if let Some(dead_letter) = &mut subscription.dead_letter {
            dead_letter.retry_topic = Some("orders.retry".to_owned());
        }
    })
}

/// A day old, with these headers.
fn put_back(bench: &Bench, offset: u64, headers: &[(&str, &str)]) {
    let mut record = record(offset, 86_400_000, "a", "{}");
    for (name, value) in headers {
        record.headers.push(v1::Header {
            key: format!("{REDRIVE}{name}"),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
        });
    }
    put(&bench.broker, RETRY, record);
}

// L10.
#[tokio::test(start_paused = true)]
async fn redriven_record_waits_for_its_time_and_holds_its_own_lane_only() {
    let bench = with_retry(Intake::default());
    let at = (EPOCH + 5000).to_string();
    put_back(&bench, 0, &[]);
    put_back(&bench, 1, &[(NOT_BEFORE, &at)]);
    put_back(&bench, 2, &[]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    assert_eq!(offsets(&peer.records(1).await), [0]);
    ages(&bench.broker, &[0; 3]);
    let others = peer.records(3).await;
    assert_eq!(offsets(&others), [0, 1, 2], "the source's lane goes on");
    assert_eq!(bench.clock.origin.elapsed().as_millis(), 0);
    assert!(peer.is_quiet(Duration::from_millis(4999)).await);
    let rest = peer.records(2).await;
    assert_eq!(offsets(&rest), [1, 2]);
    assert_ne!(rest[0].lane, others[0].lane);
    assert_eq!(bench.clock.origin.elapsed().as_millis(), 5000);
}

#[tokio::test(start_paused = true)]
async fn redriven_record_that_waits_is_neither_committed_nor_lost_by_a_rebalance() {
    let bench = with_retry(Intake::default());
    let at = (EPOCH + 60_000).to_string();
    put_back(&bench, 0, &[]);
    put_back(&bench, 1, &[(NOT_BEFORE, &at)]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(1).await;
    peer.settle(got[0].lane, 0, 0, Verdict::Acked).await;
    eventually(&bench.broker, "what was answered", |state| {
        state.committed.get(&RETRY) == Some(&1)
    })
    .await;
    bench.broker.rebalance(false);
    let again = peer.records(1).await;
    assert_eq!(offsets(&again), [1]);
    assert_eq!(bench.clock.origin.elapsed().as_millis(), 60_000);
}

#[tokio::test(start_paused = true)]
async fn redriven_record_is_neither_too_young_nor_too_old() {
    let intake = Intake {
        min_age: Duration::from_secs(2 * 86_400),
        ..max_age(1000, OnExpired::Drop)
    };
    let bench = with_retry(intake);
    put_back(&bench, 0, &[]);
    put_back(&bench, 1, &[(NOT_BEFORE, "nonsense")]);
    let mut peer = Peer::attach(&bench.handle, 1, 1).await;
    let first = peer.records(1).await;
    // The other one is judged once more before its hand-over.
    assert_eq!(bench.clock.origin.elapsed().as_millis(), 0);
    peer.settle(first[0].lane, 0, 0, Verdict::Acked).await;
    assert_eq!(offsets(&peer.records(1).await), [1]);
    assert_eq!(bench.handle.counts().expired, 0);
}

#[tokio::test(start_paused = true)]
async fn filter_judges_a_redriven_record_by_where_it_came_from() {
    let bench = with_retry(filter(
        "topic == 'orders' && partition == 3 && offset >= 40",
    ));
    let came_from = |offset| [("topic", "orders"), ("partition", "3"), ("offset", offset)];
    put_back(&bench, 0, &came_from("39"));
    put_back(&bench, 1, &came_from("40"));
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    assert_eq!(offsets(&peer.records(1).await), [1]);
    counted(&bench.handle, |counts| counts.filtered == 1).await;
}
