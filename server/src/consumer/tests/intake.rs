//! What passes the intake, when, and what becomes of the rest.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::SystemTime,
};

use ackgate_lane::{OnExpired, Position};
use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::*;

mod content;
mod filter;
mod retry;

use crate::{
    broker,
    config::{Check, Content, MaxAge, OnFailure},
};

/// The wall clock's time at the start of each test, in milliseconds.
const EPOCH: i64 = 1_700_000_000_000;

/// A wall clock that goes with tokio's, and steps when it is told to.
#[derive(Clone, Debug)]
struct Clock {
    origin: Instant,
    step_ms: Arc<AtomicI64>,
}

impl Clock {
    fn start() -> Self {
        Self {
            origin: Instant::now(),
            step_ms: Arc::default(),
        }
    }

    fn step(&self, by_ms: i64) {
        self.step_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    fn wall(&self) -> Wall {
        let clock = self.clone();
        Wall::new(move || {
            let start = EPOCH + clock.step_ms.load(Ordering::Relaxed);
            let start = Duration::from_millis(start.try_into().expect("after 1970"));
            SystemTime::UNIX_EPOCH + start + clock.origin.elapsed()
        })
    }
}

struct Bench {
    broker: Memory,
    handle: Handle,
    clock: Clock,
    budget: Budget,
}

fn bench(intake: Intake, change: impl FnOnce(&mut Subscription)) -> Bench {
    let broker = Memory::default();
    broker.with(|state| {
        state.log.entry(0).or_default();
    });
    bench_on(broker, intake, change)
}

fn bench_on(broker: Memory, intake: Intake, change: impl FnOnce(&mut Subscription)) -> Bench {
    let mut subscription = configured(Order::None);
    subscription.intake = intake;
    change(&mut subscription);
    let clock = Clock::start();
    let budget = Budget::new(1 << 30);
    let handle = spawn(Parts {
        subscription: Arc::new(subscription),
        connect: Arc::new(broker.clone()),
        producer: Some(Arc::new(broker.clone())),
        budget: budget.clone(),
        origin: clock.origin,
        wall: clock.wall(),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
    });
    Bench {
        broker,
        handle,
        clock,
        budget,
    }
}

/// A record of this age at the start, with a header `kind` and a value.
fn record(offset: u64, age_ms: i64, kind: &str, value: &str) -> v1::Record {
    v1::Record {
        offset: i64::try_from(offset).expect("small"),
        timestamp_ms: EPOCH - age_ms,
        timestamp_type: v1::TimestampType::CreateTime.into(),
        key: Some(Bytes::from(format!("key-{offset}"))),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: vec![v1::Header {
            key: "kind".to_owned(),
            value: Some(Bytes::copy_from_slice(kind.as_bytes())),
        }],
    }
}

fn put(broker: &Memory, partition: i32, record: v1::Record) {
    let offset = u64::try_from(record.offset).expect("not negative");
    let batch = v1::Batch {
        records: vec![record],
        ..v1::Batch::default()
    };
    broker.with(|state| {
        let log = state.log.entry(partition).or_default();
        log.insert(offset, batch.encode_to_vec().into());
    });
}

/// Records of these ages from offset 0 on.
fn ages(broker: &Memory, ages: &[i64]) {
    for (offset, age) in (0..).zip(ages) {
        put(broker, 0, record(offset, *age, "a", "{}"));
    }
}

fn min_age(ms: u64) -> Intake {
    Intake {
        min_age: Duration::from_millis(ms),
        ..Intake::default()
    }
}

fn max_age(ms: u64, then: OnExpired) -> Intake {
    let age = Duration::from_millis(ms);
    Intake {
        max_age: Some(MaxAge { age, then }),
        ..Intake::default()
    }
}

fn filter(source: &str) -> Intake {
    Intake {
        filter: Some(Filter::compile(source).expect("valid")),
        ..Intake::default()
    }
}

fn content(check: Check, on_failure: OnFailure) -> Intake {
    Intake {
        content: Some(Content { check, on_failure }),
        ..Intake::default()
    }
}

fn header<'a>(letter: &'a broker::Outgoing, name: &str) -> Option<&'a [u8]> {
    let name = format!("{}{name}", crate::headers::DEAD_LETTER);
    let found = letter.headers.iter().find(|(key, _)| *key == name);
    found.and_then(|(_, value)| value.as_deref())
}

/// Waits until the counts satisfy `holds`.
async fn counted(handle: &Handle, holds: impl Fn(Counts) -> bool) -> Counts {
    let end = Instant::now() + LONG;
    while !holds(handle.counts()) {
        assert!(Instant::now() < end, "not in time: {:?}", handle.counts());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    handle.counts()
}

#[tokio::test(start_paused = true)]
async fn records_pass_exactly_when_they_are_old_enough_and_in_order() {
    let bench = bench(min_age(5000), |_| {});
    // The third is old enough, and waits behind the second.
    ages(&bench.broker, &[5000, 2000, 9000, 1999]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let mut passed = Vec::new();
    for _ in 0..3 {
        let got = peer.batch().await;
        passed.push((bench.clock.origin.elapsed().as_millis(), offsets(&got)));
    }
    assert_eq!(
        passed,
        [(0, vec![0]), (3000, vec![1, 2]), (3001, vec![3])],
        "to the millisecond"
    );
}

#[tokio::test(start_paused = true)]
async fn held_records_are_not_committed_and_come_again_after_a_revoke() {
    let bench = bench(min_age(5000), |_| {});
    ages(&bench.broker, &[6000, 6000, 0, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(2).await;
    peer.settle(got[0].lane, 0, 1, Verdict::Acked).await;
    eventually(&bench.broker, "L2: up to what is held", |state| {
        state.committed.get(&0) == Some(&2)
    })
    .await;
    bench.broker.rebalance(false);
    let again = peer.records(2).await;
    assert_eq!(offsets(&again), [2, 3], "not lost");
    assert_ne!(again[0].lane, got[0].lane, "a new assignment");
    // Their age counts from their timestamps, not from when they were fetched again.
    assert_eq!(bench.clock.origin.elapsed().as_millis(), 5000);
    let commits = bench.broker.with(|state| state.commits.clone());
    assert!(
        commits.iter().all(|(_, position)| *position <= 2),
        "{commits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn seek_forgets_what_is_held_and_reads_it_again() {
    let bench = bench(min_age(5000), |subscription| {
        subscription.policy = policy(Order::Lane { skip_acked: false });
    });
    ages(&bench.broker, &[6000, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(1).await;
    let failed = Verdict::Failed { retry_after: None };
    peer.settle(got[0].lane, 0, 0, failed).await;
    let again = peer.records(2).await;
    assert_eq!(offsets(&again), [0, 1], "each once");
    peer.settle(got[0].lane, 0, 1, Verdict::Acked).await;
    assert!(peer.is_quiet(LONG).await);
}

#[tokio::test(start_paused = true)]
async fn held_records_count_as_memory_and_nothing_more_is_fetched() {
    let bench = bench(min_age(3_600_000), |_| {});
    for offset in 0..5000 {
        put(&bench.broker, 0, record(offset, 0, "a", &"x".repeat(1000)));
    }
    let mut peer = Peer::attach(&bench.handle, 1, 1000).await;
    assert!(peer.is_quiet(LONG).await);
    let fetched = bench.broker.with(|state| state.fetched);
    // A grant is made before it is known that they are young.
    let window = u64::from(policy(Order::None).window.records);
    assert!((1..=window + 64).contains(&fetched), "{fetched} fetched");
    assert!(
        (fetched * 1000..fetched * 1200).contains(&bench.budget.used()),
        "{} bytes for {fetched} records",
        bench.budget.used()
    );
    let shown = bench.handle.show().await.expect("it runs");
    assert_eq!(shown.lanes[0].too_young, fetched, "why nothing goes out");
    bench.clock.step(3_600_000);
    let got = peer.records(100).await;
    let shown = bench.handle.show().await.expect("it runs");
    assert_eq!(shown.lanes[0].too_young, 0);
    peer.settle(got[0].lane, 0, 99, Verdict::Acked).await;
    let more = peer.records(100).await;
    assert_eq!(
        offsets(&more),
        (100..200).collect::<Vec<_>>(),
        "none is lost"
    );
}

#[tokio::test(start_paused = true)]
async fn fc_114_steps_of_the_wall_clock_and_records_from_the_future_are_survived() {
    // FC-114
    let hour = 3_600_000;
    let bench = bench(min_age(5000), |_| {});
    ages(&bench.broker, &[-hour, 4000, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    assert!(peer.is_quiet(Duration::from_millis(2000)).await);
    bench.clock.step(-hour);
    assert!(peer.is_quiet(Duration::from_millis(2999)).await);
    assert_eq!(peer.records(3).await.len(), 3);
    let waited = bench.clock.origin.elapsed().as_millis();
    assert_eq!(waited, 5000, "min_age from their arrival at most");
    put(&bench.broker, 0, record(3, hour - 5000, "a", "{}"));
    assert!(peer.is_quiet(Duration::from_millis(1500)).await);
    bench.clock.step(2 * hour);
    assert_eq!(offsets(&peer.records(1).await), [3]);
    let waited = bench.clock.origin.elapsed().as_millis() - waited;
    assert!((1500..=2500).contains(&waited), "within a second: {waited}");
}

#[tokio::test(start_paused = true)]
async fn fc_39_a_record_that_waits_too_long_for_a_subscriber_is_never_handed_out() {
    // FC-39
    for then in [OnExpired::DeadLetter, OnExpired::Drop] {
        let bench = bench(max_age(1000, then), |_| {});
        ages(&bench.broker, &[0, -10_000, 0]);
        let mut peer = Peer::attach(&bench.handle, 1, 1).await;
        let first = peer.records(1).await;
        assert_eq!(offsets(&first), [0]);
        // Nobody takes the others while they age.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(bench.handle.counts().expired, 0);
        peer.settle(first[0].lane, 0, 0, Verdict::Acked).await;
        assert_eq!(offsets(&peer.records(1).await), [1]);
        peer.settle(first[0].lane, 1, 1, Verdict::Acked).await;
        counted(&bench.handle, |counts| counts.expired == 1).await;
        assert!(peer.is_quiet(LONG).await, "never handed out: {then:?}");
        assert_eq!(bench.handle.counts().expired, 1, "once");
        let letters = bench.broker.with(|state| state.letters.clone());
        match then {
            OnExpired::DeadLetter => {
                assert_eq!(letters.len(), 1);
                assert_eq!(header(&letters[0], "cause"), Some(&b"expired"[..]));
                assert_eq!(header(&letters[0], "offset"), Some(&b"2"[..]));
                assert_eq!(header(&letters[0], "attempts"), Some(&b"0"[..]));
            }
            OnExpired::Drop => assert_eq!(letters.len(), 0),
        }
        eventually(&bench.broker, "all is settled", |state| {
            state.committed.get(&0) == Some(&3)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_age_that_counts_is_that_at_the_first_hand_over() {
    let bench = bench(max_age(1000, OnExpired::Drop), |_| {});
    ages(&bench.broker, &[1000, 1001, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(2).await;
    assert_eq!(offsets(&got), [0, 2], "exactly max_age is not too old");
    assert_eq!(bench.handle.counts().expired, 1);
    let later = Some(Duration::from_secs(30));
    peer.settle(got[0].lane, 0, 0, Verdict::Failed { retry_after: later })
        .await;
    assert_eq!(
        offsets(&peer.records(1).await),
        [0],
        "it was handed out before"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_log_tells_waits_behind_records_that_are_held() {
    let bench = bench(min_age(5000), |_| {});
    ages(&bench.broker, &[6000, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(1).await;
    bench
        .broker
        .tell(0, |generation, seek| broker::Event::Gone {
            generation,
            seek,
            oldest: Position::new(10),
        });
    bench
        .broker
        .tell(0, |generation, seek| broker::Event::AtEnd {
            generation,
            seek,
            position: Position::new(12),
        });
    peer.settle(got[0].lane, 0, 0, Verdict::Acked).await;
    eventually(&bench.broker, "L2: up to what is held", |state| {
        state.committed.get(&0) == Some(&1)
    })
    .await;
    assert_eq!(bench.handle.counts().lost, 0, "1 is held, not lost");
    let got = peer.records(1).await;
    assert_eq!(offsets(&got), [1]);
    peer.settle(got[0].lane, 1, 1, Verdict::Acked).await;
    eventually(&bench.broker, "the end of the log", |state| {
        state.committed.get(&0) == Some(&12)
    })
    .await;
    let counts = counted(&bench.handle, |counts| counts.lost > 0).await;
    assert_eq!(counts.lost, 8, "2 to 9");
}
