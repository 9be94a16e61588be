//! Sessions that end once there is nothing left for them.

use ackgate_lane::Generation;

use super::{hostile::*, *};
use crate::broker::{self, Event};

const SECOND: Duration = Duration::from_secs(1);

async fn bounded(handle: &Handle, number: u64) -> Peer {
    Peer::attach_with(handle, number, 100, BATCH, true).await
}

impl Peer {
    async fn is_drained(&mut self) {
        let last = self.next().await;
        assert!(matches!(last, Outbound::End(End::Drained)), "{last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn empty_topic_is_drained() {
    let broker = Memory::default();
    broker.append(0, []);
    broker.append(1, []);
    let handle = start(&broker, Order::None);
    bounded(&handle, 1).await.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn topic_is_drained_once_every_record_is_answered() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    broker.append(1, 0..5);
    // Markers of a transaction, or what compaction has left.
    broker.with(|state| state.ends.insert(0, 17));
    let handle = start(&broker, Order::None);
    let mut peer = bounded(&handle, 1).await;
    let got = peer.records(15).await;
    peer.ack(&got[1..]).await;
    assert!(peer.is_quiet(10 * SECOND).await, "one is out");
    peer.ack(&got[..1]).await;
    peer.is_drained().await;
    eventually(&broker, "all is committed", |state| {
        state.committed.get(&0) == Some(&17) && state.committed.get(&1) == Some(&5)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn record_that_waits_for_its_retry_is_not_nothing() {
    for order in [Order::None, Order::Lane { skip_acked: false }] {
        let broker = Memory::default();
        broker.append(0, 0..3);
        let handle = start(&broker, order);
        let mut peer = bounded(&handle, 1).await;
        let got = peer.records(3).await;
        let failed = Verdict::Failed {
            retry_after: Some(20 * SECOND),
        };
        peer.ack(&got[..2]).await;
        peer.settle(got[2].lane, 2, 2, failed).await;
        assert!(peer.is_quiet(19 * SECOND).await, "it is delayed");
        let again = peer.records(1).await;
        assert_eq!((again[0].offset, again[0].delivery), (2, 2));
        peer.ack(&again).await;
        peer.is_drained().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_have_does_not_keep_a_session_open() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut other = Peer::attach(&handle, 1, 1).await;
    let held = other.records(1).await;
    let mut peer = bounded(&handle, 2).await;
    let got = peer.records(1).await;
    peer.ack(&got).await;
    peer.is_drained().await;
    other.ack(&held).await;
}

#[tokio::test(start_paused = true)]
async fn what_others_lose_keeps_a_session_open() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut other = Peer::attach(&handle, 1, 1).await;
    other.records(1).await;
    let mut peer = bounded(&handle, 2).await;
    let got = peer.records(1).await;
    let gone = Input::Detach(other.session, Departure::Lost);
    peer.tell(gone).await;
    let lost = peer.records(1).await;
    peer.ack(&got).await;
    assert!(peer.is_quiet(10 * SECOND).await, "it is its own now");
    peer.ack(&lost).await;
    peer.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn paused_session_goes_on() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach_with(&handle, 1, 0, BATCH, true).await;
    assert!(
        peer.is_quiet(LONG / 2).await,
        "it takes nothing, so nothing was looked at"
    );
    let some = Credit {
        records: 1,
        bytes: 1,
    };
    peer.tell(Input::Credit(peer.session, some)).await;
    peer.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn end_that_was_reached_before_the_session_is_looked_at_again() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut first = bounded(&handle, 1).await;
    let got = first.records(3).await;
    first.ack(&got).await;
    first.is_drained().await;
    broker.append(0, 3..5);
    let mut second = bounded(&handle, 2).await;
    let got = second.records(2).await;
    second.ack(&got).await;
    second.is_drained().await;
    // And with nothing new the end stands.
    bounded(&handle, 3).await.is_drained().await;
    assert_eq!(broker.with(|state| state.joins), 1, "one stay in the group");
}

fn at_end(generation: u64, seek: u64, position: u64) -> Event {
    Event::AtEnd {
        generation: Generation(generation),
        seek,
        position: ackgate_lane::Position::new(position),
    }
}

#[tokio::test(start_paused = true)]
async fn assignment_and_rebalance_are_waited_for() {
    let (raw, memory) = (Raw::default(), Memory::default());
    let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
    let mut peer = bounded(&handle, 1).await;
    assert!(peer.is_quiet(LONG / 2).await, "there is no assignment yet");
    // The first one of a member that joins others.
    raw.say(Event::Assigned(vec![])).await;
    assert!(peer.is_quiet(SECOND).await);
    raw.say(Event::Assigned(vec![
        assigned(1, 0, 0, true),
        assigned(2, 1, 0, true),
    ]))
    .await;
    raw.say(at_end(1, 0, 0)).await;
    assert!(peer.is_quiet(LONG / 2).await, "one lane has not been read");
    let (reply, _answer) = std::sync::mpsc::sync_channel(1);
    raw.say(Event::Revoking {
        generations: vec![Generation(2)],
        lost: false,
        reply,
    })
    .await;
    raw.say(Event::Revoked(vec![Generation(2)])).await;
    assert!(peer.is_quiet(LONG / 2).await, "the rebalance goes on");
    raw.say(Event::Assigned(vec![])).await;
    peer.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn gateway_without_lanes_has_nothing_left() {
    let (raw, memory) = (Raw::default(), Memory::default());
    let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
    let mut peer = bounded(&handle, 1).await;
    raw.say(Event::Assigned(vec![])).await;
    let begun = Instant::now();
    peer.is_drained().await;
    assert!(begun.elapsed() < LONG / 2, "it was not found by chance");
}

#[tokio::test(start_paused = true)]
async fn old_ends_and_lanes_that_cannot_be_read_do_not_count() {
    let (raw, memory) = (Raw::default(), Memory::default());
    let handle = raw_start(
        &raw,
        &memory,
        Budget::new(1 << 30),
        Order::Lane { skip_acked: false },
    );
    let mut peer = bounded(&handle, 1).await;
    raw.say(Event::Assigned(vec![assigned(1, 0, 0, true)]))
        .await;
    raw.say(Event::Fetched(chunk(1, 0..1, 10))).await;
    raw.say(at_end(1, 0, 1)).await;
    let lane = peer.records(1).await[0].lane;
    let retry_after = Some(SECOND);
    peer.settle(lane, 0, 0, Verdict::Failed { retry_after })
        .await;
    tokio::time::sleep(2 * SECOND).await;
    // The lane has been sought back; this one was on its way before.
    raw.say(at_end(1, 0, 1)).await;
    assert!(peer.is_quiet(LONG / 2).await);
    raw.say(Event::LaneFailed {
        generation: Generation(1),
        error: broker::Error {
            kind: broker::ErrorKind::Operator,
            detail: "denied".to_owned(),
        },
    })
    .await;
    raw.say(at_end(1, 1, 1)).await;
    assert!(peer.is_quiet(LONG / 2).await, "an operator is awaited");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_does_not_wait_to_fill_a_batch() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let shape = Batch {
        linger: LONG,
        ..BATCH
    };
    let mut peer = Peer::attach_with(&handle, 1, 100, shape, true).await;
    let begun = Instant::now();
    let got = peer.records(3).await;
    peer.ack(&got).await;
    peer.is_drained().await;
    assert!(begun.elapsed() < LONG / 10);
}

#[tokio::test(start_paused = true)]
async fn durable_confirmation_comes_before_the_end() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    broker.with(|state| state.commits_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = bounded(&handle, 1).await;
    let got = peer.records(1).await[0];
    let verdict = LaneVerdict {
        lane: got.lane,
        target: Target {
            range: OffsetRange::one(Offset::new(0)),
            delivery: None,
        },
        verdict: Verdict::Acked,
        code: String::new(),
        reason: String::new(),
    };
    peer.tell(Input::Settle {
        session: peer.session,
        sequence: 7,
        verdicts: vec![verdict],
        refused: Vec::new(),
        confirm: Confirm::Durable,
        ticket: None,
    })
    .await;
    assert!(peer.is_quiet(10 * SECOND).await, "Kafka does not have it");
    broker.with(|state| state.commits_fail = false);
    let answer = peer.next().await;
    assert!(
        matches!(answer, Outbound::Settled { sequence: 7, .. }),
        "{answer:?}"
    );
    peer.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn records_held_back_by_their_age_are_awaited() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let mut subscription = configured(Order::None);
    subscription.intake.min_age = LONG;
    // The time of the records: all of them are new.
    let time = std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000);
    let handle = spawn(Parts {
        subscription: Arc::new(subscription),
        connect: Arc::new(broker.clone()),
        producer: None,
        budget: Budget::new(1 << 30),
        origin: Instant::now(),
        wall: Wall::new(move || time),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
    });
    let mut peer = bounded(&handle, 1).await;
    assert!(peer.is_quiet(LONG / 2).await, "they are too young");
    let got = peer.records(3).await;
    peer.ack(&got).await;
    peer.is_drained().await;
}

#[tokio::test(start_paused = true)]
async fn subscriber_of_a_broadcast_ends_once_its_own_share_is_done() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let mut subscription = configured(Order::None);
    subscription.min_subscribers = 2;
    subscription.delivery = Delivery::Broadcast(ackgate_lane::Sharing {
        cut_off_after: None,
        absent_grace: LONG,
    });
    let handle = start_with(&broker, subscription);
    let mut peer = bounded(&handle, 1).await;
    let mut other = Peer::attach(&handle, 2, 100).await;
    let others = other.records(3).await;
    let got = peer.records(3).await;
    peer.ack(&got[..2]).await;
    assert!(peer.is_quiet(10 * SECOND).await, "one is its own");
    peer.ack(&got[2..]).await;
    peer.is_drained().await;
    other.ack(&others).await;
    eventually(&broker, "both have answered", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn stop_is_no_clean_end() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut peer = bounded(&handle, 1).await;
    let got = peer.records(1).await;
    peer.tell(Input::Stop(SECOND)).await;
    assert!(matches!(peer.next().await, Outbound::Drain(..)));
    peer.ack(&got).await;
    let last = peer.next().await;
    assert!(matches!(last, Outbound::End(End::ShuttingDown)), "{last:?}");
}
