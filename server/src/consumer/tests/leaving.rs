//! Sessions whose connection is too old: they end, and nothing else does.

use super::*;

const GRACE: Duration = Duration::from_secs(10);

async fn age(peer: &Peer) {
    peer.tell(Input::Drain(peer.session, GRACE)).await;
}

/// The next message, which says that the session ends soon.
async fn is_told(peer: &mut Peer) {
    let next = peer.next().await;
    let told = matches!(&next, Outbound::Drain(GRACE, DrainReason::ConnectionAge));
    assert!(told, "{next:?}");
}

async fn ends(peer: &mut Peer) {
    let next = peer.next().await;
    assert!(
        matches!(next, Outbound::End(End::ConnectionAged)),
        "{next:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn aged_session_gets_nothing_new_and_ends_soon_after_its_last_verdict() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut old = Peer::attach(&handle, 1, 100).await;
    let got = old.records(4).await;
    age(&old).await;
    is_told(&mut old).await;
    // Told twice is told once.
    age(&old).await;
    broker.append(0, 4..8);
    old.grant(50, 1 << 20).await;
    assert!(old.is_quiet(Duration::from_secs(5)).await, "nothing new");
    let mut new = Peer::attach(&handle, 2, 100).await;
    assert_eq!(offsets(&new.records(4).await), [4, 5, 6, 7], "others go on");
    let problems = old.settle(got[0].lane, 0, 3, Verdict::Acked).await;
    assert_eq!(problems, [], "verdicts count");
    let answered = Instant::now();
    ends(&mut old).await;
    let took = answered.elapsed();
    assert!(
        took >= Duration::from_millis(900) && took < Duration::from_secs(3),
        "{took:?}"
    );
    let committed = |state: &mut BrokerState| state.committed.get(&0) == Some(&4);
    eventually(&broker, "what it acked is committed", committed).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_aged_session_leaves_open_goes_to_others_when_its_time_is_over() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let mut old = Peer::attach(&handle, 1, 100).await;
    let lane = old.records(3).await[0].lane;
    let mut new = Peer::attach(&handle, 2, 100).await;
    let begun = Instant::now();
    age(&old).await;
    old.declare(lane, 1, 1, Verdict::Acked, Confirm::Problems)
        .await;
    let again = new.records(2).await;
    assert_eq!(offsets(&again), [0, 2]);
    assert_eq!(again[0].delivery, 2);
    let waited = begun.elapsed();
    assert!(
        waited >= GRACE && waited < GRACE + Duration::from_secs(2),
        "{waited:?}"
    );
    is_told(&mut old).await;
    ends(&mut old).await;
}

#[tokio::test(start_paused = true)]
async fn aged_session_that_can_come_back_keeps_what_is_out_to_it() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let handle = start(&broker, Order::None);
    let resumable = Wish {
        resumable: true,
        ..Wish::new(1, "billing")
    };
    let mut old = Peer::open(&handle, resumable).await.expect("it may attach");
    let lane = old.records(3).await[0].lane;
    let mut other = Peer::attach(&handle, 2, 100).await;
    age(&old).await;
    is_told(&mut old).await;
    ends(&mut old).await;
    let resume = Some(Manifest {
        token: old.accepted.token.clone().expect("a token"),
        held: vec![Held {
            topic: "orders".to_owned(),
            partition: 0,
            epoch: 1,
            range: OffsetRange::inclusive(Offset::new(0), Offset::new(2)),
            offsets: (0, 2),
            delivery: None,
        }],
    });
    let back = Wish {
        resumable: true,
        resume,
        ..Wish::new(3, "billing")
    };
    let mut back = Peer::open(&handle, back).await.expect("it may come back");
    assert!(other.is_quiet(Duration::from_secs(5)).await, "L10");
    let problems = back.settle(lane, 0, 2, Verdict::Acked).await;
    assert_eq!(problems, []);
}

#[tokio::test(start_paused = true)]
async fn goodbye_of_an_aged_session_is_answered_as_one() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let handle = start(&broker, Order::None);
    let mut old = Peer::attach(&handle, 1, 100).await;
    let got = old.records(1).await;
    age(&old).await;
    is_told(&mut old).await;
    old.ack(&got).await;
    old.leave(Departure::Closed).await;
    let next = old.next().await;
    assert!(matches!(next, Outbound::End(End::Closed)), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn aged_session_that_awaits_confirmations_gets_them_first() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut old = Peer::attach(&handle, 1, 100).await;
    let lane = old.records(2).await[0].lane;
    age(&old).await;
    is_told(&mut old).await;
    old.declare(lane, 0, 1, Verdict::Acked, Confirm::Durable)
        .await;
    assert_eq!(old.answer().await, []);
    ends(&mut old).await;
}

#[tokio::test(start_paused = true)]
async fn lane_of_an_aged_session_moves_once_it_is_answered() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut old = Peer::attach(&handle, 1, 2).await;
    let got = old.records(2).await;
    let mut new = Peer::attach(&handle, 2, 100).await;
    broker.append(0, 2..4);
    age(&old).await;
    assert!(new.is_quiet(Duration::from_secs(3)).await, "L9");
    old.ack(&got).await;
    assert_eq!(offsets(&new.records(2).await), [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn stop_goes_over_the_age_of_a_session() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    let mut handle = start(&broker, Order::None);
    let mut old = Peer::attach(&handle, 1, 100).await;
    old.records(1).await;
    age(&old).await;
    is_told(&mut old).await;
    old.tell(Input::Stop(Duration::from_secs(2))).await;
    tokio::time::timeout(Duration::from_secs(4), handle.stopped())
        .await
        .expect("the stop's own time holds");
}
