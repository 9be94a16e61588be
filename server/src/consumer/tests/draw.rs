//! Subscribers that take some records at a time.

use super::{
    hostile::{Raw, assigned, raw_start},
    *,
};
use crate::broker::Event;

const SECOND: Duration = Duration::from_secs(1);

/// What a draw brought: its records, and how it ended.
type Brought = (Vec<Got>, Drawn);

fn most(records: u64) -> Draw {
    Draw {
        most: Credit {
            records,
            bytes: 1 << 20,
        },
        wait: Duration::ZERO,
        linger: Duration::ZERO,
        give_up: 30 * SECOND,
    }
}

impl Peer {
    /// A session without credit.
    async fn idle(handle: &Handle, number: u64) -> Self {
        Self::attach(handle, number, 0).await
    }

    async fn begin(&self, draw: Draw) {
        self.tell(Input::Draw(self.session, draw)).await;
    }

    /// All of a draw, told as sent.
    async fn drawn(&mut self) -> Brought {
        let mut all = Vec::new();
        loop {
            let batch = match self.next().await {
                Outbound::Drawn(how) => return (all, how),
                Outbound::Batch(batch) => batch,
                other @ (Outbound::Settled { .. }
                | Outbound::Lane(_)
                | Outbound::Drain(..)
                | Outbound::End(_)) => panic!("{other:?}"),
            };
            let lane = batch.lane.lane;
            for range in &batch.ranges {
                let offsets = range.first().get()..range.end().get();
                all.extend(offsets.map(|offset| Got {
                    lane,
                    offset,
                    delivery: 1,
                }));
            }
            let (session, ranges) = (self.session, batch.ranges);
            let sent = Input::Sent {
                session,
                lane,
                ranges,
            };
            self.tell(sent).await;
        }
    }

    async fn draw(&mut self, draw: Draw) -> Brought {
        self.begin(draw).await;
        self.drawn().await
    }
}

#[tokio::test(start_paused = true)]
async fn l8_draw_gets_no_more_than_it_asked_for_and_the_next_one_goes_on() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let (got, how) = peer.draw(most(4)).await;
    assert_eq!((offsets(&got), how), (vec![0, 1, 2, 3], Drawn::Done));
    peer.ack(&got).await;
    assert!(peer.is_quiet(10 * SECOND).await, "nothing was asked for");
    let (got, _) = peer.draw(most(4)).await;
    assert_eq!(offsets(&got), [4, 5, 6, 7]);
    let (got, _) = peer.draw(most(4)).await;
    assert_eq!(offsets(&got), [8, 9]);
    let (got, how) = peer.draw(most(4)).await;
    assert_eq!((offsets(&got), how), (vec![], Drawn::Done));
}

#[tokio::test(start_paused = true)]
async fn l8_what_is_answered_while_a_draw_lasts_makes_no_room_in_it() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let linger = 10 * SECOND;
    peer.begin(Draw { linger, ..most(5) }).await;
    let got = peer.records(2).await;
    peer.ack(&got).await;
    broker.append(0, 2..20);
    let (got, _) = peer.drawn().await;
    assert_eq!(offsets(&got), [2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn l13_between_draws_nothing_is_fetched() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(broker.with(|state| state.fetched), 0, "nobody draws");
    let (got, _) = peer.draw(most(100)).await;
    assert_eq!(got.len(), 3);
    broker.append(0, 3..6);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(broker.with(|state| state.fetched), 3, "the draw is over");
}

#[tokio::test(start_paused = true)]
async fn draw_that_waits_ends_with_the_first_record_or_when_its_time_is_over() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let wait = 20 * SECOND;
    let begun = Instant::now();
    let draw = Draw { wait, ..most(5) };
    let (got, how) = peer.draw(draw).await;
    assert_eq!((got.len(), how), (0, Drawn::Done));
    assert!((wait..wait + 2 * SECOND).contains(&begun.elapsed()));

    peer.begin(draw).await;
    assert!(peer.is_quiet(5 * SECOND).await);
    broker.append(0, 0..1);
    let begun = Instant::now();
    let (got, _) = peer.drawn().await;
    assert_eq!(offsets(&got), [0]);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn linger_fills_a_draw_until_it_is_full_or_the_time_is_over() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let linger = 5 * SECOND;
    let begun = Instant::now();
    let draw = Draw { linger, ..most(3) };
    peer.begin(draw).await;
    let first = peer.records(1).await;
    broker.append(0, 1..2);
    let (rest, _) = peer.drawn().await;
    assert_eq!((first.len(), offsets(&rest)), (1, vec![1]));
    assert!(begun.elapsed() >= linger, "{:?}", begun.elapsed());

    broker.append(0, 2..9);
    let begun = Instant::now();
    let (got, _) = peer.draw(draw).await;
    assert_eq!(got.len(), 3);
    assert!(begun.elapsed() < linger, "it was full");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_looked_at_is_not_nothing() {
    let (raw, memory) = (Raw::default(), Memory::default());
    let handle = raw_start(&raw, &memory, Budget::new(1 << 30), Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let begun = Instant::now();
    let (got, how) = peer.draw(most(1)).await;
    assert_eq!((got.len(), how), (0, Drawn::NotSeen), "no assignment");
    assert!((30 * SECOND..32 * SECOND).contains(&begun.elapsed()));
    // Partitions that were assigned and say nothing.
    raw.say(Event::Assigned(vec![assigned(1, 0, 0, true)]))
        .await;
    let (_, how) = peer.draw(most(1)).await;
    assert_eq!(how, Drawn::NotSeen);
}

#[tokio::test(start_paused = true)]
async fn first_record_that_is_larger_comes_alone_and_no_other() {
    let broker = Memory::default();
    broker.append_sized(0, 0..3, 5000);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let mut draw = most(10);
    draw.most.bytes = 1000;
    for offset in 0..3 {
        let (got, _) = peer.draw(draw).await;
        assert_eq!(offsets(&got), [offset]);
    }
    // What a message takes beside the records counts too.
    broker.append_sized(0, 3..20, 400);
    let (got, _) = peer.draw(draw).await;
    assert_eq!(offsets(&got), [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn l9_no_later_record_of_a_key_goes_to_another_draw_while_one_is_out() {
    let broker = Memory::default();
    for offset in 0..4 {
        broker.append_keyed(0, offset, 1);
    }
    broker.append_keyed(0, 4, 2);
    let handle = start(&broker, Order::Key { share: 250 });
    let mut one = Peer::idle(&handle, 1).await;
    let mut two = Peer::idle(&handle, 2).await;
    let (first, _) = one.draw(most(1)).await;
    assert_eq!(offsets(&first), [0]);
    let (other, _) = two.draw(most(10)).await;
    assert_eq!(offsets(&other), [4]);
    one.ack(&first).await;
    let (next, _) = two.draw(most(10)).await;
    assert_eq!(next.first().map(|got| got.offset), Some(1));
}

#[tokio::test(start_paused = true)]
async fn draw_and_stream_share_the_records() {
    let broker = Memory::default();
    broker.append(0, 0..20);
    let handle = start(&broker, Order::None);
    let mut stream = Peer::attach(&handle, 1, 5).await;
    let mut peer = Peer::idle(&handle, 2).await;
    let held = stream.records(5).await;
    let (got, _) = peer.draw(most(30)).await;
    let mut all = offsets(&held);
    all.extend(offsets(&got));
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn stop_ends_a_draw_at_once() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let wait = 50 * SECOND;
    peer.begin(Draw { wait, ..most(5) }).await;
    assert!(peer.is_quiet(5 * SECOND).await);
    let begun = Instant::now();
    peer.tell(Input::Stop(20 * SECOND)).await;
    assert!(matches!(peer.next().await, Outbound::Drain(..)));
    assert!(matches!(peer.next().await, Outbound::Drawn(Drawn::Done)));
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn session_retires_only_when_nothing_is_out() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::idle(&handle, 1).await;
    let (got, _) = peer.draw(most(2)).await;
    let retire = || Input::Retire(Session(1), Departure::Closed);
    peer.tell(retire()).await;
    assert!(peer.is_quiet(5 * SECOND).await, "two records are out");
    peer.ack(&got).await;
    peer.tell(retire()).await;
    assert!(matches!(peer.next().await, Outbound::End(End::Closed)));
}

#[tokio::test(start_paused = true)]
async fn leased_lane_goes_to_who_draws_and_moves_when_nothing_of_it_is_out() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut one = Peer::idle(&handle, 1).await;
    let mut two = Peer::idle(&handle, 2).await;
    let (got, _) = one.draw(most(2)).await;
    assert_eq!(offsets(&got), [0, 1]);
    // L9: the lane is the first one's while anything of it is out.
    let (none, how) = two.draw(most(2)).await;
    assert_eq!((none.len(), how), (0, Drawn::Done));
    one.ack(&got).await;
    let (got, _) = two.draw(most(2)).await;
    assert_eq!(offsets(&got), [2, 3]);
}
