//! Against those who would break it, and against bad luck.

use ackgate_lane::{Generation, Position};
use ackgate_proto::v1;
use parking_lot::Mutex;
use prost::Message as _;

use super::*;
use crate::broker::{self, Chunk, Commit, Connect, Consumer, Event, RecordIndex};

/// A consumer that does nothing by itself; the test speaks for Kafka.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    fail: bool,
    events: Arc<Mutex<Option<mpsc::Sender<Event>>>>,
    grants: Arc<Mutex<Vec<(Generation, u32, u64)>>>,
    closed: Arc<std::sync::atomic::AtomicBool>,
}
impl Connect for Raw {
    fn consume(&self, events: mpsc::Sender<Event>) -> Result<Box<dyn Consumer>, broker::Error> {
        if self.fail {
            return Err(broker::Error {
                kind: broker::ErrorKind::Operator,
                detail: "no CA file".into(),
            });
        }
        *self.events.lock() = Some(events);
        Ok(Box::new(self.clone()))
    }
}
impl Consumer for Raw {
    fn grant(&self, g: Generation, r: u32, b: u64) {
        self.grants.lock().push((g, r, b));
    }
    fn withdraw(&self, _: Generation) {}
    fn commit(&self, _: Vec<Commit>) {}
    fn seek(&self, _: Generation, _: Position, _: u64) {}
    fn close(&self) {
        self.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}
pub(super) fn raw_start(raw: &Raw, memory: &Memory, budget: Budget, order: Order) -> Handle {
    spawn(Parts {
        subscription: Arc::new(configured(order)),
        connect: Arc::new(raw.clone()),
        producer: Some(Arc::new(memory.clone())),
        budget,
        origin: Instant::now(),
        wall: Wall::system(),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
    })
}
pub(super) fn chunk(generation: u64, offsets: std::ops::Range<u64>, size: usize) -> Chunk {
    let mut bytes = Vec::new();
    let mut records = Vec::new();
    for offset in offsets {
        let record = v1::Record {
            offset: i64::try_from(offset).expect("small offsets"),
            value: Some(vec![0; size].into()),
            ..Default::default()
        };
        v1::Batch {
            records: vec![record],
            ..Default::default()
        }
        .encode(&mut bytes)
        .unwrap();
        records.push(RecordIndex {
            offset,
            end: u32::try_from(bytes.len()).expect("small chunks"),
            key: None,
            timestamp_ms: 0,
        });
    }
    Chunk {
        generation: Generation(generation),
        seek: 0,
        records,
        bytes: bytes.into(),
        polled: None,
    }
}
pub(super) fn assigned(
    generation: u64,
    partition: i32,
    start: u64,
    committed: bool,
) -> broker::Assigned {
    broker::Assigned {
        partition: broker::TopicPartition {
            topic: "orders".into(),
            partition,
        },
        generation: Generation(generation),
        start: Some(Position::new(start)),
        committed,
        metadata: None,
        anew: None,
    }
}
impl Raw {
    pub(super) async fn say(&self, event: Event) {
        for _ in 0..100 {
            if self.events.lock().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let s = self.events.lock().clone().expect("joined");
        s.send(event).await.expect("driver");
    }
}

/// Runs a scenario on virtual time on its own thread; false: it never ends (a busy
/// driver keeps virtual time from advancing).
fn ends<F: Future<Output = ()> + Send + 'static>(scenario: F) -> bool {
    let (done, wait) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let rt = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        rt.block_on(scenario);
        done.send(()).ok();
    });
    wait.recv_timeout(Duration::from_secs(5)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn start_at_the_end_is_committed_so_that_a_rejoin_passes_nothing() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|s| s.latest = true);
    let handle = start(&broker, Order::None);
    let mut first = Peer::attach(&handle, 1, 100).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    broker.append(0, 3..6);
    assert_eq!(offsets(&first.records(3).await), [3, 4, 5]);
    first.settle(1, 0, 0, Verdict::Acked).await;
    first
        .tell(Input::Detach(first.session, Departure::Lost))
        .await;
    tokio::time::sleep(2 * LONG).await;
    let mut second = Peer::attach(&handle, 2, 100).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    broker.append(0, 6..7);
    assert_eq!(
        offsets(&second.records(1).await).first(),
        Some(&3),
        "3, 4, 5 had no verdict (L6)"
    );
}

#[tokio::test(start_paused = true)]
async fn start_at_the_end_is_committed_so_that_a_rebalance_passes_nothing() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|s| s.latest = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    broker.append(0, 3..6);
    let got = peer.records(3).await;
    // 4 and 5 are acked, 3 is still being worked on: floor 3 = start, nothing is ever committed.
    peer.settle(got[0].lane, 4, 5, Verdict::Acked).await;
    broker.rebalance(false);
    tokio::time::sleep(LONG).await;
    broker.append(0, 6..7);
    assert_eq!(offsets(&peer.records(1).await).first(), Some(&3));
}

#[tokio::test(start_paused = true)]
async fn poison_record_does_not_take_its_neighbours_along() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    for life in 1..=25 {
        let mut peer = Peer::attach(&handle, life, 10).await;
        // It works on the lowest record first; record 0 kills it.
        let end = Instant::now() + Duration::from_secs(1);
        let mut got = Vec::new();
        while let Ok(Some(m)) = tokio::time::timeout_at(end, peer.inbox.recv()).await {
            if let Outbound::Batch(b) = m {
                for r in &b.ranges {
                    got.extend(r.first().get()..r.end().get());
                }
                peer.tell(Input::Sent {
                    session: peer.session,
                    lane: b.lane.lane,
                    ranges: b.ranges,
                })
                .await;
            }
        }
        peer.tell(Input::Detach(peer.session, Departure::Lost))
            .await;
    }
    tokio::time::sleep(LONG).await;
    assert_eq!(
        broker.with(|s| s.letters.len()),
        1,
        "only record 0 is guilty"
    );
}

#[test]
fn refused_consumer_does_not_spin_without_a_subscriber() {
    assert!(
        ends(async {
            let memory = Memory::default();
            let raw = Raw {
                fail: true,
                ..Raw::default()
            };
            let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
            let peer = Peer::attach(&handle, 1, 100).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.tell(Input::Detach(peer.session, Departure::Lost))
                .await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }),
        "the driver spins once retry_at is past and nobody is attached (L13)"
    );
}

#[test]
fn stop_during_the_linger_does_not_spin() {
    assert!(
        ends(async {
            let memory = Memory::default();
            let raw = Raw::default();
            let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
            let peer = Peer::attach(&handle, 1, 100).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.tell(Input::Detach(peer.session, Departure::Lost))
                .await;
            tokio::time::sleep(Duration::from_secs(25)).await;
            peer.tell(Input::Stop(Duration::from_secs(10))).await;
            // Leaving the group takes 8 s, linger (30 s) ends meanwhile.
            tokio::time::sleep(Duration::from_secs(8)).await;
            raw.say(Event::Closed).await;
        }),
        "the driver spins while it waits for the consumer to leave"
    );
}

#[tokio::test(start_paused = true)]
async fn lane_gets_its_minimum_whatever_others_hold() {
    let memory = Memory::default();
    let raw = Raw::default();
    let budget = Budget::new(1 << 20);
    let handle = raw_start(&raw, &memory, budget.clone(), Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    raw.say(Event::Assigned(vec![assigned(1, 0, 0, true)]))
        .await;
    raw.say(Event::Fetched(chunk(1, 0..2, 10))).await;
    let lane = peer.records(2).await[0].lane;
    // Another subscription's stuck subscriber fills the gateway's memory.
    budget.recount(0, 1 << 20);
    peer.settle(
        lane,
        0,
        0,
        Verdict::Failed {
            retry_after: Some(Duration::from_secs(3600)),
        },
    )
    .await;
    peer.settle(lane, 1, 1, Verdict::Acked).await;
    raw.say(Event::Fetched(chunk(1, 2..40, 30_000))).await; // uses up the grant
    peer.records(38).await;
    let before = raw.grants.lock().len();
    peer.settle(lane, 2, 39, Verdict::Acked).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(
        raw.grants.lock().len() > before,
        "the lane holds 30 bytes and is granted nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn log_below_the_committed_position_holds_the_lane_and_is_told() {
    let memory = Memory::default();
    let raw = Raw::default();
    let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    // Committed 1000, but the log was truncated / the topic made anew: librdkafka
    // resets to the oldest record (auto.offset.reset = earliest).
    raw.say(Event::Assigned(vec![assigned(1, 0, 1000, true)]))
        .await;
    raw.say(Event::Fetched(chunk(1, 0..10, 10))).await;
    let mut told = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    while let Ok(Some(m)) = tokio::time::timeout_at(end, peer.inbox.recv()).await {
        if !matches!(&m, Outbound::Lane(n) if n.kind == NoticeKind::Assigned) {
            told.push(m);
        }
    }
    assert!(
        !told.is_empty(),
        "ten records were neither delivered nor reported"
    );
}

#[tokio::test(start_paused = true)]
async fn grants_stay_within_the_budget() {
    let raw = Raw::default();
    let limit = 64u64 << 20;
    let mut sub = configured(Order::None);
    sub.window_bytes = 64 << 20;
    sub.policy.window.records = 2000;
    let handle = spawn(Parts {
        subscription: Arc::new(sub),
        connect: Arc::new(raw.clone()),
        producer: None,
        budget: Budget::new(limit),
        origin: Instant::now(),
        wall: Wall::system(),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
    });
    let _peer = Peer::attach(&handle, 1, 100).await;
    raw.say(Event::Assigned(
        (1..=300_u16)
            .map(|g| assigned(u64::from(g), i32::from(g), 0, true))
            .collect(),
    ))
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let total: u64 = raw.grants.lock().iter().map(|g| g.2).sum();
    assert!(
        total <= limit + 300 * 256 * 1024,
        "granted {} MiB",
        total >> 20
    );
}

#[tokio::test(start_paused = true)]
async fn message_that_asks_for_endless_answers_ends_its_session_alone() {
    let broker = Memory::default();
    broker.append(0, 0..2000);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100_000).await;
    let mut lane = 0;
    for _ in 0..20 {
        let got = peer.records(100).await;
        lane = got[0].lane;
        for one in &got {
            let verdict = match one.offset % 2 {
                0 => Verdict::Acked,
                _ => Verdict::Rejected,
            };
            peer.settle(lane, one.offset, one.offset, verdict).await;
        }
    }
    let everything = OffsetRange::inclusive(Offset::new(0), Offset::new(1 << 62));
    let verdict = LaneVerdict {
        lane,
        target: Target {
            range: everything.expect("a run"),
            delivery: None,
        },
        verdict: Verdict::Acked,
        code: String::new(),
        reason: String::new(),
    };
    peer.tell(Input::Settle {
        session: peer.session,
        sequence: u64::MAX,
        verdicts: vec![verdict; 500],
        refused: Vec::new(),
        confirm: Confirm::Problems,
        ticket: None,
    })
    .await;
    let end = tokio::time::timeout(LONG, &mut peer.cut).await;
    assert_eq!(end.expect("in time"), Ok(End::TooManyAnswers), "L14");
    broker.append(0, 2000..2010);
    let mut other = Peer::attach(&handle, 2, 100).await;
    // Others go on, also with what was out to the one that was cut off.
    assert!(other.records(10).await.len() >= 10);
}
