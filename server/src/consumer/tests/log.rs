//! What the log itself does: it ends, loses its beginning, or is another one; and the
//! group that falls silent.

use ackgate_lane::Position;

use super::*;
use crate::broker::Event;

/// News of lanes until one of `kind`; records are passed over.
pub(super) async fn news(peer: &mut Peer, kind: NoticeKind) -> LaneNotice {
    loop {
        if let Some(at) = peer.news.iter().position(|news| news.kind == kind) {
            return peer.news.remove(at);
        }
        let next = tokio::time::timeout(LONG, peer.inbox.recv()).await;
        if let Outbound::Lane(news) = next.expect("news in time").expect("an open outbox") {
            peer.news.push(news);
        }
    }
}

fn end(broker: &Memory, position: u64) {
    broker.tell(0, |generation, seek| Event::AtEnd {
        generation,
        seek,
        position: Position::new(position),
    });
}

// FC-06, L7.
#[tokio::test(start_paused = true)]
async fn trailing_markers_are_committed_past_once_all_before_them_is_settled() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    end(&broker, 6);
    peer.settle(lane, 1, 4, Verdict::Acked).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // What is settled above 0 may be committed as a map.
    assert!(
        broker.with(|state| state.commits.iter().all(|(_, at)| *at == 0)),
        "L2"
    );
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    eventually(&broker, "the log's end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
    broker.append(0, 6..8);
    assert_eq!(offsets(&peer.records(2).await), [6, 7]);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_log_from_before_a_seek_says_nothing() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    broker.tell(0, |generation, seek| Event::AtEnd {
        generation,
        seek: seek + 7,
        position: Position::new(9),
    });
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    eventually(&broker, "what was received", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(broker.with(|state| state.committed[&0]), 3);
}

// FC-93, L7.
#[tokio::test(start_paused = true)]
async fn range_that_retention_took_is_told_exactly_and_reading_goes_on() {
    let broker = Memory::default();
    broker.with(|state| state.committed.insert(0, 100));
    broker.append(0, 500..503);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 0).await;
    news(&mut peer, NoticeKind::Assigned).await;
    broker.tell(0, |generation, seek| Event::Gone {
        generation,
        seek,
        oldest: Position::new(500),
    });
    let lost = news(&mut peer, NoticeKind::LostRange).await;
    assert_eq!(
        lost.range,
        OffsetRange::inclusive(Offset::new(100), Offset::new(499))
    );
    let credit = Credit {
        records: 100,
        bytes: 1 << 20,
    };
    peer.tell(Input::Credit(peer.session, credit)).await;
    let got = peer.records(3).await;
    assert_eq!(offsets(&got), [500, 501, 502]);
    peer.settle(got[0].lane, 500, 502, Verdict::Acked).await;
    eventually(&broker, "what there is", |state| {
        state.committed.get(&0) == Some(&503)
    })
    .await;
}

// FC-91, L1, L4, L11.
#[tokio::test(start_paused = true)]
async fn log_made_anew_voids_what_was_out_and_is_committed_lower_in_a_new_epoch() {
    let broker = Memory::default();
    broker.with(|state| state.committed.insert(0, 1000));
    broker.append(0, 1000..1002);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let old = peer.records(2).await[0].lane;
    broker.with(|state| {
        state.log.insert(0, std::collections::BTreeMap::new());
        state.anew = Some("topic recreated".to_owned());
    });
    broker.append(0, 0..10);
    broker.rebalance(true);
    let reset = news(&mut peer, NoticeKind::Reset).await;
    assert_eq!((reset.lane.epoch, &*reset.detail), (2, "topic recreated"));
    eventually(&broker, "the new floor at once", |state| {
        state.committed.get(&0) == Some(&0)
    })
    .await;
    let got = peer.records(10).await;
    assert_eq!(offsets(&got), (0..10).collect::<Vec<_>>());
    let late = peer.settle(old, 1000, 1001, Verdict::Acked).await;
    assert_eq!(late[0].result, Ok(VerdictResult::Fenced));
    peer.settle(got[0].lane, 0, 9, Verdict::Acked).await;
    eventually(&broker, "the ten", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    assert!(broker.with(|state| state.commits.iter().all(|(_, at)| *at <= 10)));
}

pub(super) fn contact(broker: &Memory, age: u64) {
    let age = Duration::from_secs(age);
    broker.say(Event::Contact { age });
}

// L4.
#[tokio::test(start_paused = true)]
async fn silent_group_stops_the_hand_out_and_then_voids_what_is_out() {
    let broker = Memory::default();
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    let begin = Instant::now();

    let held = news(&mut peer, NoticeKind::Held).await;
    assert_eq!(begin.elapsed().as_secs(), 8);
    assert!(held.detail.contains("nothing new"), "{held:?}");
    broker.append(0, 3..5);
    // A verdict still counts: nobody else can have the lane yet. Its commit is not answered.
    broker.with(|state| state.commits_fail = true);
    assert_eq!(peer.settle(lane, 0, 0, Verdict::Acked).await, []);

    let fenced = news(&mut peer, NoticeKind::Fenced).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    assert!(fenced.detail.contains("void"), "{fenced:?}");
    let late = peer.settle(lane, 1, 1, Verdict::Acked).await;
    assert_eq!(late[0].result, Ok(VerdictResult::Stale));
    tokio::time::sleep(LONG / 2).await;
    assert!(
        peer.inbox.try_recv().is_err(),
        "nothing goes out in silence"
    );

    broker.with(|state| state.commits_fail = false);
    contact(&broker, 1);
    news(&mut peer, NoticeKind::Recovered).await;
    let again = peer.records(4).await;
    assert_eq!(offsets(&again), [1, 2, 3, 4]);
    assert_eq!(again[0].delivery, 2);
}

#[tokio::test(start_paused = true)]
async fn answers_of_the_coordinator_and_commits_keep_the_fence_away() {
    let broker = Memory::default();
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    broker.append(0, 0..20);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(20).await[0].lane;
    for offset in 0..10 {
        tokio::time::sleep(Duration::from_secs(6)).await;
        if offset % 2 == 0 {
            contact(&broker, 0);
        } else {
            peer.settle(lane, offset, offset, Verdict::Acked).await;
            peer.settle(lane, offset - 1, offset - 1, Verdict::Acked)
                .await;
            eventually(&broker, "a commit", |state| {
                state.committed.get(&0) == Some(&(offset + 1))
            })
            .await;
        }
    }
    while let Ok(message) = peer.inbox.try_recv() {
        if let Outbound::Lane(news) = message {
            peer.news.push(news);
        }
    }
    let told: Vec<NoticeKind> = peer.news.iter().map(|news| news.kind).collect();
    assert_eq!(told, [NoticeKind::Assigned]);
}
