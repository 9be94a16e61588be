//! Lane order: seeks back to the floor.

use super::*;

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
