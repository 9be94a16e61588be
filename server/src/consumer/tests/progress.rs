//! Lanes that make no progress, and the words for what they wait for. FC-103.

use super::{
    log::{contact, news},
    logged::Log,
    *,
};

pub(super) async fn why(handle: &Handle) -> Option<Reason> {
    let shown = handle.show().await.expect("it runs");
    let lane = shown.lanes.into_iter().next().expect("an assigned lane");
    lane.why
}

async fn kind(handle: &Handle) -> Option<ReasonKind> {
    why(handle).await.map(|why| why.kind)
}

pub(super) async fn becomes(handle: &Handle, expected: Option<ReasonKind>) {
    let end = Instant::now() + LONG;
    loop {
        let now = kind(handle).await;
        if now == expected {
            return;
        }
        assert!(Instant::now() < end, "{now:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_record_stalls_its_lane_whatever_it_is_extended_by() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(3).await;
    let range = OffsetRange::inclusive(Offset::new(0), Offset::new(2)).expect("a run");
    for _ in 0..2 {
        tokio::time::sleep(STALLED_AFTER * 9 / 20).await;
        let (session, lane) = (peer.session, got[0].lane);
        peer.tell(Input::Extend {
            session,
            sequence: 9,
            targets: vec![(lane, range)],
            refused: Vec::new(),
            by: Duration::from_secs(600),
            confirm: false,
            ticket: None,
        })
        .await;
        assert_eq!(kind(&handle).await, None, "its time is not over");
    }
    tokio::time::sleep(STALLED_AFTER / 5).await;
    let stalled = why(&handle).await.expect("it is stalled");
    assert_eq!(
        (stalled.kind, stalled.offset),
        (ReasonKind::Unanswered, Some(0))
    );
    assert_eq!(stalled.kind.weight(), Weight::Stalled);
    assert!(stalled.text.contains("peer-1"), "{}", stalled.text);
    let age = Wall::system().now_ms() - stalled.since_ms.expect("an age");
    assert!(
        (10_000..3_600_000).contains(&age),
        "since its hand-over: {age}"
    );
    // The oldest that is left, and then none.
    peer.ack(&got[..2]).await;
    assert_eq!(why(&handle).await.and_then(|why| why.offset), Some(2));
    peer.ack(&got[2..]).await;
    assert_eq!(kind(&handle).await, None);
}

#[tokio::test(start_paused = true)]
async fn who_has_a_record_is_named_while_it_is_away() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let wish = Wish {
        resumable: true,
        ..Wish::new(1, "w8")
    };
    let mut peer = Peer::open(&handle, wish).await.expect("it may attach");
    let got = peer.records(1).await;
    let range = OffsetRange::one(Offset::new(0));
    peer.tell(Input::Extend {
        session: peer.session,
        sequence: 1,
        targets: vec![(got[0].lane, range)],
        refused: Vec::new(),
        by: Duration::from_secs(600),
        confirm: false,
        ticket: None,
    })
    .await;
    tokio::time::sleep(STALLED_AFTER * 9 / 10).await;
    let lost = Input::Detach(peer.session, Departure::Lost);
    peer.tell(lost).await;
    tokio::time::sleep(STALLED_AFTER / 5).await;
    let stalled = why(&handle).await.expect("it is stalled");
    assert_eq!(stalled.kind, ReasonKind::Unanswered);
    assert_eq!(
        stalled.text,
        "the record at 0 is out to subscriber \"w8\", which is away, without a verdict"
    );
}

#[tokio::test(start_paused = true)]
async fn lane_with_records_and_takers_that_gets_none_is_stalled_until_it_does() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|state| state.silent = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 2).await;
    eventually(&broker, "the group is joined", |state| state.joins == 1).await;
    while handle.show().await.expect("it runs").lanes.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    broker.tell_heads(3);
    becomes(&handle, Some(ReasonKind::Undelivered)).await;
    // A pause is no stall, and neither is credit that is used up.
    peer.grant(0, 0).await;
    becomes(&handle, Some(ReasonKind::NoSubscriber)).await;
    peer.grant(2, 1 << 20).await;
    becomes(&handle, Some(ReasonKind::Undelivered)).await;
    broker.with(|state| state.silent = false);
    let got = peer.records(2).await;
    becomes(&handle, Some(ReasonKind::NoCredit)).await;
    peer.ack(&got).await;
    let got = peer.records(1).await;
    peer.ack(&got).await;
    becomes(&handle, None).await;
    // Nothing to hand out is nothing to stall for.
    tokio::time::sleep(STALLED_AFTER * 5).await;
    assert_eq!(kind(&handle).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_time_is_no_stall() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(1).await;
    let retry_after = Some(STALLED_AFTER * 4);
    peer.say(got[0], Verdict::Failed { retry_after }).await;
    for _ in 0..3 {
        tokio::time::sleep(STALLED_AFTER).await;
        let waits = why(&handle).await.expect("it waits");
        assert_eq!((waits.kind, waits.offset), (ReasonKind::Backoff, Some(0)));
        assert_eq!(waits.kind.weight(), Weight::Waits);
    }
    let got = peer.records(1).await;
    peer.ack(&got).await;
    becomes(&handle, None).await;
}

#[tokio::test(start_paused = true)]
async fn refused_record_that_holds_its_lane_is_told_once() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let mut subscription = configured(Order::None);
    subscription.policy.on_reject = OnReject::Hold;
    let handle = start_with(&broker, subscription);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(2).await;
    peer.say(got[0], Verdict::Rejected).await;
    peer.say(got[1], Verdict::Acked).await;
    becomes(&handle, Some(ReasonKind::Rejected)).await;
    assert!(peer.is_quiet(STALLED_AFTER * 3).await);
    let held = |news: &&LaneNotice| news.kind == NoticeKind::Held;
    assert_eq!(peer.news.iter().filter(held).count(), 1, "{:?}", peer.news);
    let told = why(&handle).await.expect("it holds");
    assert_eq!(told.offset, Some(0));
    assert!(told.since_ms.is_some(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn subscription_without_subscribers_waits_for_one() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(2).await;
    peer.ack(&got).await;
    peer.leave(Departure::Closed).await;
    becomes(&handle, Some(ReasonKind::NoSubscriber)).await;
    assert_eq!(
        why(&handle).await.unwrap().text,
        "no subscriber is attached"
    );
}

#[tokio::test(start_paused = true)]
async fn group_that_is_silent_keeps_all_lanes_and_says_since_when() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    let handle = start(&broker, Order::None);
    assert!(handle.show().await.expect("it runs").group.is_none());
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(1).await;
    peer.ack(&got).await;
    for expected in [ReasonKind::GroupSilent, ReasonKind::GroupFenced] {
        becomes(&handle, Some(expected)).await;
        let shown = handle.show().await.expect("it runs");
        let group = shown.group.expect("the whole subscription is kept");
        assert_eq!(group.kind, expected);
        assert!(group.since_ms.is_some(), "{group:?}");
        assert!(handle.measure().await.expect("it runs").fenced);
    }
}

#[tokio::test(start_paused = true)]
async fn silent_group_that_takes_its_lanes_is_told_until_it_answers() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let got = peer.records(1).await;
    peer.ack(&got).await;
    becomes(&handle, Some(ReasonKind::GroupSilent)).await;
    // The client has given its lanes up before the session was over.
    broker.with(|state| state.keeps_lanes = true);
    broker.rebalance(true);
    let end = Instant::now() + LONG;
    loop {
        let shown = handle.show().await.expect("it runs");
        let group = shown.group.expect("it is told still");
        assert!(handle.measure().await.expect("it runs").fenced);
        if shown.lanes.is_empty() && group.kind == ReasonKind::GroupFenced {
            break;
        }
        assert!(Instant::now() < end, "{group:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    news(&mut peer, NoticeKind::Fenced).await;
    // The group answers, and takes its time to give lanes: that is no silence.
    contact(&broker, 0);
    news(&mut peer, NoticeKind::Recovered).await;
    for _ in 0..3 {
        let shown = handle.show().await.expect("it runs");
        let group = shown.group.map(|group| group.kind);
        assert_eq!(group, Some(ReasonKind::NoLanes));
        assert!(!handle.measure().await.expect("it runs").fenced);
        tokio::time::sleep(Duration::from_secs(9)).await;
    }
    broker.with(|state| state.keeps_lanes = false);
    broker.rebalance(true);
    while handle.show().await.expect("it runs").group.is_some() {
        assert!(Instant::now() < end + LONG, "it is told still");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    broker.append(0, 1..2);
    peer.records(1).await;
}

#[tokio::test(start_paused = true)]
async fn silence_of_a_group_that_is_left_says_nothing_about_the_next() {
    let (log, _until_the_end) = Log::begin();
    let broker = Memory::default();
    broker.append(0, 0..2);
    broker.with(|state| state.session = Some(Duration::from_secs(10)));
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 1).await;
    peer.records(1).await;
    becomes(&handle, Some(ReasonKind::GroupFenced)).await;
    // Nor does it answer commits.
    broker.with(|state| state.commits_fail = true);
    peer.leave(Departure::Closed).await;
    let end = Instant::now() + LONG * 10;
    while handle.show().await.expect("it runs").group.is_some() {
        assert!(Instant::now() < end, "it is told still");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let left = "the group that did not answer is left";
    assert!(log.text().contains(left), "{}", log.text());
    assert!(!handle.measure().await.expect("it runs").fenced);
    broker.with(|state| state.commits_fail = false);
    let mut next = Peer::attach(&handle, 2, 10).await;
    assert_eq!(next.records(2).await.len(), 2);
    let is_of_group = |news: &LaneNotice| {
        let kinds = [NoticeKind::Held, NoticeKind::Fenced, NoticeKind::Recovered];
        kinds.contains(&news.kind)
    };
    assert!(!next.news.iter().any(is_of_group), "{:?}", next.news);
}
