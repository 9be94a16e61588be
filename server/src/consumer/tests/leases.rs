//! Lanes that belong to one subscriber at a time.

use std::collections::BTreeMap;

use super::*;

const LANE: Order = Order::Lane { skip_acked: false };

/// Beats on behalf of a peer until it is dropped.
struct Heart(tokio::task::JoinHandle<()>);

impl Heart {
    fn of(peer: &Peer) -> Self {
        let (handle, session) = (peer.handle.clone(), peer.session);
        Self(tokio::spawn(async move {
            while handle.send(Input::Beat(session)).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        }))
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes what comes for a while; records by lane number.
async fn taken(peer: &mut Peer, within: Duration) -> BTreeMap<u64, Vec<u64>> {
    let end = Instant::now() + within;
    let mut taken: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    while let Ok(Some(message)) = tokio::time::timeout_at(end, peer.inbox.recv()).await {
        match message {
            Outbound::Batch(batch) => {
                let lane = batch.lane.lane;
                for range in &batch.ranges {
                    let offsets = range.first().get()..range.end().get();
                    taken.entry(lane).or_default().extend(offsets);
                }
                peer.tell(Input::Sent {
                    session: peer.session,
                    lane,
                    ranges: batch.ranges,
                })
                .await;
            }
            Outbound::Lane(news) => peer.news.push(news),
            Outbound::Settled { .. }
            | Outbound::Drawn(_)
            | Outbound::Drain(..)
            | Outbound::End(_) => {}
        }
    }
    taken
}

fn kinds(peer: &Peer, lane: u64) -> Vec<NoticeKind> {
    let of_lane = peer.news.iter().filter(|news| news.lane.lane == lane);
    of_lane.map(|news| news.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn lane_goes_to_the_other_when_its_holder_falls_silent_and_is_fenced() {
    let broker = Memory::default();
    broker.append(0, 0..6);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 4).await;
    let mut two = Peer::attach(&handle, 2, 4).await;
    let _heart = Heart::of(&two);
    let old = one.records(4).await[0].lane;
    assert!(two.is_quiet(Duration::from_secs(29)).await, "L9");
    assert_eq!(kinds(&two, old).last(), Some(&NoticeKind::Standby));
    // 30 s after the last word of the holder.
    let got = two.records(4).await;
    assert_eq!(offsets(&got), [0, 1, 2, 3]);
    let new = got[0].lane;
    assert_ne!(new, old);
    assert_eq!(kinds(&two, new), [NoticeKind::Leased]);
    let late = one.settle(old, 0, 3, Verdict::Acked).await;
    let results: Vec<_> = late.iter().map(|answer| answer.result).collect();
    assert_eq!(results, [Ok(VerdictResult::Fenced)], "L4");
    assert_eq!(kinds(&one, old).last(), Some(&NoticeKind::Standby));
    two.settle(new, 0, 3, Verdict::Acked).await;
    assert_eq!(offsets(&two.records(2).await), [4, 5], "in order");
    two.settle(new, 4, 5, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn beats_keep_a_lane_for_as_long_as_they_come() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 4).await;
    let heart = Heart::of(&one);
    let mut two = Peer::attach(&handle, 2, 4).await;
    let _other = Heart::of(&two);
    let lane = one.records(2).await[0].lane;
    assert!(one.settle(lane, 0, 1, Verdict::Acked).await.is_empty());
    assert!(two.is_quiet(Duration::from_secs(300)).await);
    broker.append(0, 2..4);
    assert_eq!(one.records(2).await[0].lane, lane, "the same lease");
    drop(heart);
    let got = two.records(2).await;
    assert_ne!(got[0].lane, lane);
}

#[tokio::test(start_paused = true)]
async fn l13_silent_subscriber_gets_nothing_until_it_is_heard_of() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 4).await;
    let lane = one.records(1).await[0].lane;
    assert!(one.settle(lane, 0, 0, Verdict::Acked).await.is_empty());
    tokio::time::sleep(LONG).await;
    broker.append(0, 1..3);
    assert!(one.is_quiet(LONG).await, "L13");
    one.tell(Input::Beat(one.session)).await;
    let got = one.records(2).await;
    assert_eq!(offsets(&got), [1, 2]);
    assert_ne!(got[0].lane, lane, "another lease");
}

#[tokio::test(start_paused = true)]
async fn sixteen_lanes_are_spread_over_three_subscribers_as_they_come_and_go() {
    let broker = Memory::default();
    for partition in 0..16 {
        broker.append(partition, 0..3);
    }
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 1000).await;
    let _one = Heart::of(&one);
    let all = taken(&mut one, Duration::from_secs(5)).await;
    assert_eq!(all.len(), 16);
    let mut two = Peer::attach(&handle, 2, 1000).await;
    let mut three = Peer::attach(&handle, 3, 1000).await;
    let (_two, _three) = (Heart::of(&two), Heart::of(&three));
    // Nothing moves while it is out, and nothing new is handed out on what is to move.
    for partition in 0..16 {
        broker.append(partition, 3..5);
    }
    assert!(two.is_quiet(Duration::from_secs(5)).await, "L9");
    let kept = taken(&mut one, Duration::from_secs(5)).await;
    assert_eq!(kept.len(), 6, "a third, rounded up: {kept:?}");
    for lane in all.keys() {
        let problems = one.settle(*lane, 0, 2, Verdict::Acked).await;
        assert!(problems.is_empty(), "{problems:?}");
    }
    let (to_two, to_three) = (
        taken(&mut two, Duration::from_secs(1)).await,
        taken(&mut three, Duration::from_secs(1)).await,
    );
    assert_eq!((to_two.len(), to_three.len()), (5, 5));
    let mut moved: Vec<u64> = to_two.keys().chain(to_three.keys()).copied().collect();
    moved.sort_unstable();
    moved.dedup();
    assert_eq!(moved.len(), 10);
    assert!(
        moved.iter().all(|lane| !all.contains_key(lane)),
        "new numbers"
    );
    assert!(
        to_two.values().all(|offsets| *offsets == [3, 4]),
        "{to_two:?}"
    );
    // One says goodbye: its lanes go to the others.
    two.tell(Input::Detach(two.session, Departure::Closed))
        .await;
    let more = taken(&mut one, Duration::from_secs(5)).await.len();
    let most = taken(&mut three, Duration::from_secs(5)).await.len();
    assert_eq!((more, most), (2, 3), "8 for each");
}

#[tokio::test(start_paused = true)]
async fn paused_subscriber_keeps_no_lane_once_it_has_answered() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 2).await;
    let mut two = Peer::attach(&handle, 2, 2).await;
    let _hearts = (Heart::of(&one), Heart::of(&two));
    let lane = one.records(2).await[0].lane;
    one.tell(Input::Credit(one.session, Credit::default()))
        .await;
    assert!(two.is_quiet(Duration::from_secs(20)).await, "L9: it is out");
    assert!(one.settle(lane, 0, 1, Verdict::Acked).await.is_empty());
    let got = two.records(2).await;
    assert_eq!(offsets(&got), [2, 3]);
    let late = one.settle(lane, 2, 3, Verdict::Acked).await;
    let results: Vec<_> = late.iter().map(|answer| answer.result).collect();
    assert_eq!(results, [Ok(VerdictResult::Fenced)], "L4");
}

#[tokio::test(start_paused = true)]
async fn broken_stream_gives_its_lane_up_at_once_unless_it_can_resume() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 2).await;
    let mut two = Peer::open(
        &handle,
        Wish {
            resumable: true,
            records: 2,
            ..Wish::new(2, "two")
        },
    )
    .await
    .expect("it may attach");
    let mut three = Peer::attach(&handle, 3, 2).await;
    let _three = Heart::of(&three);
    one.records(2).await;
    one.tell(Input::Detach(one.session, Departure::Lost)).await;
    let begun = Instant::now();
    let got = two.records(2).await;
    let lane = got[0].lane;
    assert_eq!(offsets(&got), [0, 1]);
    assert!(begun.elapsed() < Duration::from_secs(1), "at once");
    // This one can come back, for as long as its lease holds.
    two.tell(Input::Detach(two.session, Departure::Lost)).await;
    assert!(three.is_quiet(Duration::from_secs(10)).await);
    let wish = |session| Wish {
        resumable: true,
        records: 2,
        resume: Some(Manifest {
            token: two.accepted.token.clone().expect("a token"),
            held: vec![Held {
                topic: "orders".to_owned(),
                partition: 0,
                epoch: 1,
                range: OffsetRange::inclusive(Offset::new(0), Offset::new(1)),
                offsets: (0, 1),
                delivery: None,
            }],
        }),
        ..Wish::new(session, "two")
    };
    let mut back = Peer::open(&handle, wish(4)).await.expect("it is back");
    let kept = &back.accepted.resumed[0];
    assert_eq!(
        (kept.result, kept.lane),
        (ackgate_lane::ResumeResult::Kept, lane)
    );
    assert!(back.settle(lane, 0, 1, Verdict::Acked).await.is_empty());
    assert_eq!(back.records(2).await[0].lane, lane, "the same lease");
    back.tell(Input::Detach(back.session, Departure::Lost))
        .await;
    let got = three.records(2).await;
    assert_eq!(offsets(&got), [2, 3], "in order");
    assert_ne!(got[0].lane, lane);
    let late = Peer::open(&handle, wish(5)).await.expect("it is back");
    assert_eq!(
        late.accepted.resumed[0].result,
        ackgate_lane::ResumeResult::Lost
    );
}

#[tokio::test(start_paused = true)]
async fn flood_of_beats_costs_nothing_but_their_reading() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 1).await;
    for _ in 0..50_000 {
        one.tell(Input::Beat(one.session)).await;
    }
    let lane = one.records(1).await[0].lane;
    assert!(one.settle(lane, 0, 0, Verdict::Acked).await.is_empty());
    assert_eq!(offsets(&one.records(1).await), [1]);
    let leased = kinds(&one, lane);
    let moves = leased.iter().filter(|kind| **kind == NoticeKind::Leased);
    assert_eq!(moves.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_too_large_for_the_holder_does_not_stop_the_lane() {
    let broker = Memory::default();
    broker.append(0, [0]);
    let handle = start(&broker, LANE);
    let small = Wish {
        max_message_bytes: 4096,
        ..Wish::new(1, "small")
    };
    let mut small = Peer::open(&handle, small).await.expect("it may attach");
    let _heart = Heart::of(&small);
    let got = small.records(1).await;
    let other = Peer::attach(&handle, 2, 100).await;
    let _other_heart = Heart::of(&other);
    small.ack(&got).await;
    broker.append_sized(0, [1], 10_000);
    broker.append(0, [2]);
    let got = small.records(1).await;
    assert_eq!(offsets(&got), [2]);
    small.ack(&got).await;
    eventually(&broker, "the commit", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    assert_eq!(broker.with(|state| state.letters.len()), 1, "oversize");
}

/// Nobody makes room for a lane that has gone to another one.
#[tokio::test(start_paused = true)]
async fn a_subscriber_makes_no_room_for_a_lane_that_it_has_lost() {
    let broker = Memory::default();
    broker.append_sized(0, 0..3, 80);
    broker.append(1, []);
    let handle = start(&broker, LANE);
    let mut one = Peer::attach(&handle, 1, 0).await;
    one.grant(50, 1000).await;
    let _heart = Heart::of(&one);
    let small = one.records(3).await;
    broker.append_sized(1, 0..2, 2000);
    assert!(one.is_quiet(Duration::from_secs(1)).await);
    let shown = handle.show().await.expect("it runs");
    assert!(shown.subscribers[0].reserved);
    let mut two = Peer::attach(&handle, 2, 0).await;
    two.grant(50, 1000).await;
    let _other_heart = Heart::of(&two);
    let large = two.records(1).await;
    assert_ne!(large[0].lane, small[0].lane);
    broker.append_sized(0, 3..4, 80);
    let got = one.batch_within(Duration::from_secs(5)).await;
    assert_eq!(offsets(&got), [3], "its own lane goes on");
}
