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
mod durable;
mod fairness;
mod hostile;
mod identity;
mod intake;
mod key_order;
mod lane_order;
mod leases;
mod log;
mod ownership;
mod resume;
mod shape;
mod standstill;
mod stop;

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
    })
}

/// A session without gRPC.
struct Peer {
    session: Session,
    handle: Handle,
    inbox: mpsc::Receiver<Outbound>,
    cut: oneshot::Receiver<End>,
    sequence: u64,
    /// What the driver said to it.
    accepted: Accepted,
    /// News of lanes that have come.
    news: Vec<LaneNotice>,
}

/// How a peer begins.
#[derive(Clone, Debug)]
struct Wish {
    session: u64,
    name: String,
    records: u64,
    resumable: bool,
    takeover: bool,
    resume: Option<Manifest>,
    max_message_bytes: u64,
    filter: Option<Filter>,
    batch: Batch,
    until_drained: bool,
}

impl Wish {
    fn new(session: u64, name: &str) -> Self {
        Self {
            session,
            name: name.to_owned(),
            records: 100,
            resumable: false,
            takeover: false,
            resume: None,
            max_message_bytes: 4 << 20,
            filter: None,
            batch: BATCH,
            until_drained: false,
        }
    }
}

/// One record as a peer got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Got {
    lane: u64,
    offset: u64,
    delivery: u32,
}

impl Peer {
    async fn attach(handle: &Handle, number: u64, records: u64) -> Self {
        Self::attach_as(handle, number, &format!("peer-{number}"), records).await
    }

    /// With batches of its own, or until nothing is left.
    async fn attach_with(
        handle: &Handle,
        number: u64,
        records: u64,
        batch: Batch,
        until_drained: bool,
    ) -> Self {
        let wish = Wish {
            records,
            batch,
            until_drained,
            ..Wish::new(number, &format!("peer-{number}"))
        };
        Self::open(handle, wish).await.expect("it may attach")
    }

    async fn attach_as(handle: &Handle, number: u64, name: &str, records: u64) -> Self {
        let wish = Wish {
            records,
            ..Wish::new(number, name)
        };
        Self::open(handle, wish).await.expect("it may attach")
    }

    async fn open(handle: &Handle, wish: Wish) -> Result<Self, Refusal> {
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let (cut, cut_heard) = oneshot::channel();
        let session = Session(wish.session);
        let attach = Attach {
            session,
            name: Arc::from(wish.name),
            resumable: wish.resumable,
            takeover: wish.takeover,
            resume: wish.resume,
            credit: Credit {
                records: wish.records,
                bytes: 1 << 20,
            },
            max_message_bytes: wish.max_message_bytes,
            ack_deadline: Duration::from_secs(30),
            filter: wish.filter,
            batch: wish.batch,
            until_drained: wish.until_drained,
            outbox,
            cut,
        };
        let (opened, heard) = oneshot::channel();
        handle
            .send(Input::Attach(attach, opened))
            .await
            .expect("a running driver");
        let accepted = heard.await.expect("a running driver")?;
        Ok(Self {
            session,
            handle: handle.clone(),
            inbox,
            cut: cut_heard,
            sequence: 0,
            accepted,
            news: Vec::new(),
        })
    }

    /// The first batch within `for_as_long`, told as sent.
    async fn batch_within(&mut self, for_as_long: Duration) -> Vec<Got> {
        tokio::time::timeout(for_as_long, self.batch())
            .await
            .unwrap_or_default()
    }

    async fn grant(&self, records: u64, bytes: u64) {
        let credit = Credit { records, bytes };
        self.tell(Input::Credit(self.session, credit)).await;
    }

    async fn leave(&self, how: Departure) {
        self.tell(Input::Detach(self.session, how)).await;
    }

    /// Acks what it got, record by record.
    async fn ack(&mut self, got: &[Got]) {
        for got in got {
            self.say(*got, Verdict::Acked).await;
        }
    }

    /// Gives a verdict without waiting: only a problem is answered, and fails the wait
    /// for the next batch.
    async fn say(&mut self, got: Got, verdict: Verdict) {
        self.sequence += 1;
        let verdict = LaneVerdict {
            lane: got.lane,
            target: Target {
                range: OffsetRange::one(Offset::new(got.offset)),
                delivery: None,
            },
            verdict,
            code: "code".to_owned(),
            reason: "reason".to_owned(),
        };
        self.tell(Input::Settle {
            session: self.session,
            sequence: self.sequence,
            verdicts: vec![verdict],
            refused: Vec::new(),
            confirm: Confirm::Problems,
            ticket: None,
        })
        .await;
    }

    /// The next message that is not news of a lane.
    async fn next(&mut self) -> Outbound {
        loop {
            let next = tokio::time::timeout(LONG, self.inbox.recv());
            match next
                .await
                .expect("a message in time")
                .expect("an open outbox")
            {
                Outbound::Lane(news) => self.news.push(news),
                other @ (Outbound::Batch(_)
                | Outbound::Settled { .. }
                | Outbound::Drain(_)
                | Outbound::End(_)) => return other,
            }
        }
    }

    /// The next batch, told as sent.
    async fn batch(&mut self) -> Vec<Got> {
        let next = self.next().await;
        let Outbound::Batch(batch) = next else {
            panic!("a batch is due, not {next:?}")
        };
        let lane = batch.lane.lane;
        let mut got = Vec::new();
        for range in &batch.ranges {
            for offset in range.first().get()..range.end().get() {
                let of = |run: &&Redelivered| run.range.contains(Offset::new(offset));
                let delivery = batch
                    .redelivered
                    .iter()
                    .find(of)
                    .map_or(1, |run| run.delivery);
                got.push(Got {
                    lane,
                    offset,
                    delivery,
                });
            }
        }
        let session = self.session;
        self.tell(Input::Sent {
            session,
            lane,
            ranges: batch.ranges,
        })
        .await;
        got
    }

    /// Batches until `count` records have come.
    async fn records(&mut self, count: usize) -> Vec<Got> {
        let mut got = Vec::new();
        while got.len() < count {
            got.extend(self.batch().await);
        }
        got
    }

    async fn tell(&self, input: Input) {
        self.handle.send(input).await.expect("a running driver");
    }

    /// Gives a verdict and returns the problems.
    async fn settle(
        &mut self,
        lane: u64,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> Vec<VerdictAnswer> {
        self.declare(lane, first, last, verdict, Confirm::Applied)
            .await;
        self.answer().await
    }

    /// Gives a verdict without waiting for its answer.
    async fn declare(
        &mut self,
        lane: u64,
        first: u64,
        last: u64,
        verdict: Verdict,
        confirm: Confirm,
    ) {
        self.sequence += 1;
        let range = OffsetRange::inclusive(Offset::new(first), Offset::new(last)).expect("a run");
        let verdict = LaneVerdict {
            lane,
            target: Target {
                range,
                delivery: None,
            },
            verdict,
            code: "code".to_owned(),
            reason: "reason".to_owned(),
        };
        let (session, sequence) = (self.session, self.sequence);
        let verdicts = vec![verdict];
        let refused = Vec::new();
        self.tell(Input::Settle {
            session,
            sequence,
            verdicts,
            refused,
            confirm,
            ticket: None,
        })
        .await;
    }

    /// The answer to the last message; others are passed over.
    async fn answer(&mut self) -> Vec<VerdictAnswer> {
        loop {
            if let Outbound::Settled {
                sequence, answers, ..
            } = self.next().await
                && sequence == self.sequence
            {
                return answers;
            }
        }
    }

    /// Whether nothing but news comes for a while.
    async fn is_quiet(&mut self, for_as_long: Duration) -> bool {
        let end = Instant::now() + for_as_long;
        loop {
            match tokio::time::timeout_at(end, self.inbox.recv()).await {
                Err(_elapsed) => return true,
                Ok(Some(Outbound::Lane(news))) => self.news.push(news),
                Ok(_) => return false,
            }
        }
    }
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
