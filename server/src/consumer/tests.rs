//! The driver against a broker in memory, on virtual time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ackgate_lane::{
    Backoff, Offset, OffsetRange, OnReject, Order, Policy, Subscriber, Target, Verdict,
    VerdictResult, Window,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::*;
use crate::{
    broker::memory::{Memory, State as BrokerState},
    config::{DeadLetter, Delivery, StartAt, Subscription},
};

const LONG: Duration = Duration::from_secs(60);

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
        window: Window {
            records: 100,
            span: 10_000,
        },
        commit_interval: Duration::from_secs(1),
        commit_settlements: 1_000_000,
    }
}

fn subscription(order: Order) -> Subscription {
    Subscription {
        name: "orders".to_owned(),
        cluster: "main".to_owned(),
        topics: vec!["orders".to_owned()],
        group: "billing".to_owned(),
        start: StartAt::Earliest,
        delivery: Delivery::Competing,
        policy: policy(order),
        window_bytes: 1 << 20,
        linger: Duration::from_secs(30),
        revoke_drain: Duration::from_secs(5),
        dead_letter: Some(DeadLetter {
            topic: "orders.dead-letter".to_owned(),
            producer_properties: Vec::new(),
        }),
        consumer_properties: Vec::new(),
    }
}

fn start(broker: &Memory, order: Order) -> Handle {
    spawn(Parts {
        subscription: Arc::new(subscription(order)),
        connect: Arc::new(broker.clone()),
        producer: Some(Arc::new(broker.clone())),
        budget: Budget::new(1 << 30),
        origin: Instant::now(),
    })
}

/// A session without gRPC.
struct Peer {
    subscriber: Subscriber,
    handle: Handle,
    inbox: mpsc::Receiver<Outbound>,
    cut: oneshot::Receiver<End>,
    sequence: u64,
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
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let (cut, cut_heard) = oneshot::channel();
        let subscriber = Subscriber(number);
        let attach = Attach {
            subscriber,
            name: Arc::from(format!("peer-{number}")),
            credit: Credit {
                records,
                bytes: 1 << 20,
            },
            max_message_bytes: 4 << 20,
            ack_deadline: Duration::from_secs(30),
            outbox,
            cut,
        };
        handle
            .send(Input::Attach(attach))
            .await
            .expect("a running driver");
        Self {
            subscriber,
            handle: handle.clone(),
            inbox,
            cut: cut_heard,
            sequence: 0,
        }
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
                Outbound::Lane(_) => {}
                other => return other,
            }
        }
    }

    /// The next batch, told as sent.
    async fn batch(&mut self) -> Vec<Got> {
        let Outbound::Batch(batch) = self.next().await else {
            panic!("a batch is due")
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
        let subscriber = self.subscriber;
        self.tell(Input::Sent {
            subscriber,
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
        let (subscriber, sequence) = (self.subscriber, self.sequence);
        let verdicts = vec![verdict];
        let refused = Vec::new();
        self.tell(Input::Settle {
            subscriber,
            sequence,
            verdicts,
            refused,
            confirm: true,
        })
        .await;
        loop {
            if let Outbound::Settled { sequence, answers } = self.next().await
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
                Ok(Some(Outbound::Lane(_))) => {}
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

#[tokio::test(start_paused = true)]
async fn acked_records_are_committed_and_nothing_is_fetched_before_a_subscriber_comes() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    tokio::time::sleep(LONG).await;
    assert_eq!(
        broker.with(|state| (state.joins, state.fetched)),
        (0, 0),
        "L13"
    );
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let got = peer.records(10).await;
    assert_eq!(offsets(&got), (0..10).collect::<Vec<_>>());
    assert!(
        peer.settle(got[0].lane, 0, 9, Verdict::Acked)
            .await
            .is_empty()
    );
    eventually(&broker, "the commit", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn commit_waits_for_the_oldest_unsettled_record() {
    let broker = Memory::default();
    broker.append(0, 10..13);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 10, 10, Verdict::Acked).await;
    peer.settle(lane, 12, 12, Verdict::Acked).await;
    peer.settle(
        lane,
        11,
        11,
        Verdict::Failed {
            retry_after: Some(LONG / 2),
        },
    )
    .await;
    eventually(&broker, "the floor", |state| {
        state.committed.get(&0) == Some(&11)
    })
    .await;
    let again = peer.records(1).await;
    assert_eq!((again[0].offset, again[0].delivery), (11, 2));
    peer.settle(lane, 11, 11, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&13)
    })
    .await;
    assert_eq!(
        broker.with(|state| state.commits.clone()),
        [(0, 11), (0, 13)],
        "L1, L2"
    );
}

#[tokio::test(start_paused = true)]
async fn in_flight_never_exceeds_the_credit_and_zero_pauses() {
    let broker = Memory::default();
    broker.append(0, 0..50);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 3).await;
    let got = peer.records(3).await;
    assert_eq!(got.len(), 3, "L8");
    assert!(peer.is_quiet(LONG / 3).await, "L8");
    let paused = Credit {
        records: 0,
        bytes: 0,
    };
    peer.tell(Input::Credit(peer.subscriber, paused)).await;
    peer.settle(got[0].lane, 0, 2, Verdict::Acked).await;
    assert!(peer.is_quiet(LONG / 3).await, "zero pauses");
    let all = Credit {
        records: 100,
        bytes: 1 << 20,
    };
    peer.tell(Input::Credit(peer.subscriber, all)).await;
    assert_eq!(peer.records(47).await.len(), 47);
}

#[tokio::test(start_paused = true)]
async fn lost_subscriber_leaves_its_records_to_the_next_and_commits_nothing() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let handle = start(&broker, Order::None);
    let mut first = Peer::attach(&handle, 1, 100).await;
    first.records(5).await;
    first
        .tell(Input::Detach(first.subscriber, Departure::Lost))
        .await;
    let mut second = Peer::attach(&handle, 2, 100).await;
    let again = second.records(5).await;
    assert!(again.iter().all(|got| got.delivery == 2));
    assert!(broker.with(|state| state.commits.is_empty()), "L6");
    let answers = first_answer(&mut second, &first, again[0].lane).await;
    assert_eq!(answers, [Ok(VerdictResult::Duplicate)]);
}

/// Acks through the second peer, then once more: the repeat is a duplicate.
async fn first_answer(
    second: &mut Peer,
    _first: &Peer,
    lane: u64,
) -> Vec<Result<VerdictResult, &'static str>> {
    assert!(second.settle(lane, 0, 4, Verdict::Acked).await.is_empty());
    let again = second.settle(lane, 0, 4, Verdict::Acked).await;
    again.into_iter().map(|answer| answer.result).collect()
}

#[tokio::test(start_paused = true)]
async fn rejected_record_holds_the_floor_until_its_dead_letter_is_stored() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    peer.settle(lane, 1, 2, Verdict::Acked).await;
    tokio::time::sleep(LONG).await;
    assert!(broker.with(|state| state.commits.is_empty()), "L3");
    broker.with(|state| state.letters_fail = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    let letters = broker.with(|state| state.letters.clone());
    assert_eq!(letters.len(), 1);
    let header = |name: &str| {
        let name = format!("ackgate.dead-letter.{name}");
        let value = letters[0].headers.iter().find(|(key, _)| *key == name);
        value
            .and_then(|(_, value)| value.clone())
            .map(|v| String::from_utf8_lossy(&v).into_owned())
    };
    let expected = [
        ("topic", "orders"),
        ("partition", "0"),
        ("offset", "0"),
        ("timestamp", "1700000000000"),
        ("group", "billing"),
        ("subscription", "orders"),
        ("cause", "rejected"),
        ("code", "code"),
        ("reason", "reason"),
        ("attempts", "1"),
        ("deliveries", "1"),
        ("subscriber", "peer-1"),
        ("dedupe-id", "billing/orders/0/0"),
    ];
    for (name, value) in expected {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
    assert!(header("first-delivery").is_some() && header("last-delivery").is_some());
    assert_eq!(letters[0].value.as_deref(), Some("value 0".as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn revoke_waits_for_verdicts_commits_the_floor_and_fences_what_comes_later() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let old = peer.records(10).await[0].lane;
    broker.rebalance(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        peer.settle(old, 0, 7, Verdict::Acked).await.is_empty(),
        "verdicts count in a drain"
    );
    eventually(&broker, "the last commit", |state| {
        state.committed.get(&0) == Some(&8)
    })
    .await;
    let again = peer.records(2).await;
    assert_eq!(offsets(&again), [8, 9], "exactly what was not settled");
    assert_ne!(again[0].lane, old);
    let late = peer.settle(old, 8, 9, Verdict::Acked).await;
    assert_eq!(
        late.first().map(|answer| answer.result),
        Some(Ok(VerdictResult::Fenced)),
        "L4"
    );
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(8)
    );
}

#[tokio::test(start_paused = true)]
async fn failure_in_lane_order_seeks_back_and_delivers_from_the_floor_again() {
    let broker = Memory::default();
    broker.append(0, 0..6);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(6).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    peer.settle(lane, 2, 2, Verdict::Failed { retry_after: None })
        .await;
    let late = peer.settle(lane, 4, 4, Verdict::Acked).await;
    assert_eq!(
        late.first().map(|answer| answer.result),
        Some(Ok(VerdictResult::Stale)),
        "L4"
    );
    let again = peer.records(4).await;
    assert_eq!(offsets(&again), [2, 3, 4, 5]);
    assert!(again.iter().all(|got| got.delivery == 2), "{again:?}");
    peer.settle(lane, 2, 5, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn held_record_that_has_vanished_is_released_and_told() {
    let broker = Memory::default();
    broker.append(0, 0..6);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(6).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Failed { retry_after: None })
        .await;
    broker.with(|state| {
        state
            .log
            .get_mut(&0)
            .expect("a log")
            .retain(|offset, _| *offset >= 4)
    });
    let mut lost = None;
    while lost.is_none() {
        match tokio::time::timeout(LONG, peer.inbox.recv())
            .await
            .expect("in time")
        {
            Some(Outbound::Lane(news)) if news.kind == NoticeKind::LostRange => lost = news.range,
            Some(_) => {}
            None => panic!("the outbox is open"),
        }
    }
    assert_eq!(
        lost.map(|range| (range.first().get(), range.last().get())),
        Some((0, 3)),
        "L7"
    );
    peer.settle(lane, 4, 5, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn subscriber_that_does_not_read_is_cut_off_and_costs_no_memory() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 2).await;
    for sequence in 0..2 * OUTBOX as u64 {
        let (subscriber, refused) = (peer.subscriber, Vec::new());
        let verdicts = Vec::new();
        peer.tell(Input::Settle {
            subscriber,
            sequence,
            verdicts,
            refused,
            confirm: true,
        })
        .await;
    }
    let end = tokio::time::timeout(LONG, &mut peer.cut)
        .await
        .expect("in time");
    assert_eq!(end, Ok(End::NotReading));
    let mut other = Peer::attach(&handle, 2, 100).await;
    assert_eq!(
        other.records(10).await.len(),
        10,
        "L14: others get everything"
    );
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_verdicts_commits_and_leaves() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    assert!(matches!(peer.next().await, Outbound::Drain(_)));
    peer.settle(lane, 0, 4, Verdict::Acked).await;
    assert_eq!(peer.next().await, Outbound::End(End::ShuttingDown));
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(5)
    );
}

#[tokio::test(start_paused = true)]
async fn stop_ends_at_its_deadline_with_a_stuck_subscriber() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    let begun = Instant::now();
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert!(begun.elapsed() < Duration::from_secs(11));
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2),
        "the floor"
    );
}

#[tokio::test(start_paused = true)]
async fn group_is_left_after_the_linger_and_joined_again_without_loss() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut first = Peer::attach(&handle, 1, 100).await;
    let lane = first.records(4).await[0].lane;
    first.settle(lane, 0, 1, Verdict::Acked).await;
    first
        .tell(Input::Detach(first.subscriber, Departure::Closed))
        .await;
    assert_eq!(first.next().await, Outbound::End(End::Closed));
    tokio::time::sleep(2 * LONG).await;
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2)
    );
    let mut second = Peer::attach(&handle, 2, 100).await;
    assert_eq!(offsets(&second.records(2).await), [2, 3]);
    assert_eq!(broker.with(|state| state.joins), 2);
}

#[tokio::test(start_paused = true)]
async fn commit_that_failed_is_tried_again() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    broker.with(|state| state.commits_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(4).await[0].lane;
    peer.settle(lane, 0, 3, Verdict::Acked).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(broker.with(|state| state.commits.is_empty()));
    broker.with(|state| state.commits_fail = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&4)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_subscribers_share_the_records_and_each_gets_its_own() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut one = Peer::attach(&handle, 1, 5).await;
    let mut two = Peer::attach(&handle, 2, 5).await;
    let (first, second) = (one.records(5).await, two.records(5).await);
    let all: BTreeSet<u64> = offsets(&first)
        .into_iter()
        .chain(offsets(&second))
        .collect();
    assert_eq!(all.len(), 10);
    let theirs = second[0];
    let answers = one
        .settle(theirs.lane, theirs.offset, theirs.offset, Verdict::Acked)
        .await;
    assert_eq!(
        answers.first().map(|answer| answer.result),
        Some(Ok(VerdictResult::Unknown))
    );
}
