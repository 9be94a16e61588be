//! The driver against a broker in memory, on virtual time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ackgate_lane::{
    Backoff, Offset, OffsetRange, OnReject, Order, Policy, Target, Verdict, VerdictResult, Window,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::*;

mod ack_map;
mod atomic;
mod broadcast;
mod cohort;
mod commit;
mod dead_letter;
mod delivery;
mod drained;
mod draw;
mod durable;
mod fairness;
mod hostile;
mod identity;
mod intake;
mod key_order;
mod lane_order;
mod leases;
mod leaving;
mod log;
mod logged;
mod measured;
mod ownership;
mod peer;
mod progress;
mod reasons;
mod resume;
mod shape;
mod standstill;
mod stop;
mod traces;

use self::peer::{Got, Peer, Wish};
use crate::{
    broker::memory::{Memory, State as BrokerState},
    config::{Batch, Copying, DeadLetter, Delivery, Intake, Lease, StartAt, Subscription},
    filter::Filter,
};

const LONG: Duration = Duration::from_secs(60);

/// The configuration's default.
const BATCH: Batch = Batch {
    max_records: 1024,
    max_bytes: 256 << 10,
    linger: Duration::ZERO,
    min_fill: 1.0,
};

fn policy(order: Order) -> Policy {
    let backoff = Backoff {
        initial: Duration::from_millis(100),
        factor: 2.0,
        max: Duration::from_secs(1),
    };
    Policy {
        order,
        ack_deadline: Duration::from_secs(30),
        max_attempts: 3,
        max_deliveries: 20,
        backoff,
        on_reject: OnReject::DeadLetter,
        dead_letter_backoff: backoff,
        on_unwritten: ackgate_lane::OnUnwritten::Block,
        breaker: ackgate_lane::Breaker::default(),
        window: Window {
            records: 100,
            span: 10_000,
        },
        commit_interval: Duration::from_secs(1),
        commit_settlements: 1_000_000,
        exactly_once: false,
    }
}

/// As the default of `health.stalled_after`.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(10);

pub(super) fn configured(order: Order) -> Subscription {
    Subscription {
        name: "orders".to_owned(),
        cluster: "main".to_owned(),
        topics: vec!["orders".to_owned()],
        group: "billing".to_owned(),
        start: StartAt::Earliest,
        delivery: Delivery::Competing,
        policy: policy(order),
        window_bytes: 1 << 20,
        batch: BATCH,
        intake: Intake::default(),
        map_bytes: ackgate_lane::MAX_MAP_BYTES,
        linger: Duration::from_secs(30),
        revoke_drain: Duration::from_secs(5),
        resume_grace: Duration::from_secs(30),
        lease: Lease {
            duration: Duration::from_secs(30),
            beat: Duration::from_secs(10),
        },
        cohort_grace: Duration::ZERO,
        min_subscribers: 1,
        dead_letter: Some(DeadLetter {
            retry_topic: None,
            topic: "orders.dead-letter".to_owned(),
            exactly_once: None,
            copying: Copying::default(),
            producer_properties: Vec::new(),
        }),
        consumer_properties: Vec::new(),
    }
}

fn start(broker: &Memory, order: Order) -> Handle {
    let mut subscription = configured(order);
    if broker.with(|state| state.latest) {
        subscription.start = StartAt::Latest;
    }
    start_with(broker, subscription)
}

fn start_with(broker: &Memory, subscription: Subscription) -> Handle {
    spawn(Parts {
        subscription: Arc::new(subscription),
        connect: Arc::new(broker.clone()),
        producer: Some(Arc::new(broker.clone())),
        budget: Budget::new(1 << 30),
        origin: Instant::now(),
        wall: Wall::system(),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
    })
}

async fn eventually(broker: &Memory, what: &str, holds: impl Fn(&mut BrokerState) -> bool) {
    let end = Instant::now() + LONG;
    while !broker.with(|state| holds(state)) {
        assert!(
            Instant::now() < end,
            "not in time: {what}: {:?}",
            broker.with(|s| format!("{s:?}"))
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn offsets(got: &[Got]) -> Vec<u64> {
    got.iter().map(|got| got.offset).collect()
}
