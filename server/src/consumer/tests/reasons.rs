//! The words for what a lane waits for: each kind while its cause lasts, and no longer.

use ackgate_lane::Sharing;

use super::{
    progress::{becomes, why},
    *,
};
use crate::broker;

#[tokio::test(start_paused = true)]
async fn dead_letter_that_cannot_be_written_is_told_until_it_can() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(1).await;
    peer.say(got[0], Verdict::Rejected).await;
    becomes(&handle, Some(ReasonKind::DeadLetterBlocked)).await;
    let told = why(&handle).await.expect("it holds");
    assert_eq!(told.text, "dead letter not written: as told");
    assert!(told.since_ms.is_some(), "{told:?}");
    broker.with(|state| state.letters_fail = false);
    becomes(&handle, None).await;
}

#[tokio::test(start_paused = true)]
async fn partition_that_cannot_be_read_is_told_with_the_brokers_words() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(1).await;
    peer.ack(&got).await;
    becomes(&handle, None).await;
    broker.tell(0, |generation, _| broker::Event::LaneFailed {
        generation,
        error: broker::Error {
            kind: broker::ErrorKind::Operator,
            detail: "a broken batch".to_owned(),
        },
    });
    becomes(&handle, Some(ReasonKind::Unreadable)).await;
    let told = why(&handle).await.expect("it holds");
    assert!(told.text.contains("a broken batch"), "{}", told.text);
}

#[tokio::test(start_paused = true)]
async fn lane_that_leaves_waits_for_what_is_out() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    peer.records(1).await;
    assert_eq!(why(&handle).await, None);
    broker.rebalance(false);
    becomes(&handle, Some(ReasonKind::Draining)).await;
}

#[tokio::test(start_paused = true)]
async fn lane_waits_for_as_many_subscribers_as_are_wanted() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let subscription = Subscription {
        min_subscribers: 2,
        ..configured(Order::None)
    };
    let handle = start_with(&broker, subscription);
    let _one = Peer::attach(&handle, 1, 10).await;
    while handle.show().await.expect("it runs").lanes.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    becomes(&handle, Some(ReasonKind::Cohort)).await;
    let mut two = Peer::attach(&handle, 2, 10).await;
    becomes(&handle, None).await;
    drop(two.inbox.try_recv());
}

#[tokio::test(start_paused = true)]
async fn window_without_room_is_told_until_something_settles() {
    let broker = Memory::default();
    broker.append(0, 0..150);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 1000).await;
    let got = peer.records(100).await;
    becomes(&handle, Some(ReasonKind::WindowFull)).await;
    let told = why(&handle).await.expect("it waits");
    assert!(told.text.contains("100 records"), "{}", told.text);
    peer.ack(&got).await;
    let got = peer.records(50).await;
    becomes(&handle, None).await;
    peer.ack(&got).await;
}

#[tokio::test(start_paused = true)]
async fn member_without_lanes_says_so() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    assert!(handle.show().await.expect("it runs").group.is_none());
    let _peer = Peer::attach(&handle, 1, 10).await;
    eventually(&broker, "the group is joined", |state| state.joins == 1).await;
    let shown = handle.show().await.expect("it runs");
    let told = shown.group.expect("there are no lanes");
    assert_eq!(told.kind, ReasonKind::NoLanes);
}

#[tokio::test(start_paused = true)]
async fn broadcast_names_the_record_that_an_absent_subscriber_owes() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let mut subscription = configured(Order::Lane { skip_acked: false });
    subscription.delivery = Delivery::Broadcast(Sharing {
        cut_off_after: None,
        absent_grace: LONG * 10,
    });
    subscription.min_subscribers = 2;
    let handle = start_with(&broker, subscription);
    let mut here = Peer::attach(&handle, 1, 10).await;
    let mut lost = Peer::attach(&handle, 2, 10).await;
    let got = here.records(3).await;
    let owed = lost.records(3).await;
    here.ack(&got).await;
    lost.ack(&owed[..1]).await;
    lost.tell(Input::Detach(lost.session, Departure::Lost))
        .await;
    becomes(&handle, Some(ReasonKind::SubscriberAway)).await;
    assert_eq!(why(&handle).await.and_then(|why| why.offset), Some(1));
}
