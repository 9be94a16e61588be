//! One stream for each name, and how another one takes its place.

use super::*;

async fn cut(peer: &mut Peer) -> End {
    tokio::time::timeout(LONG, &mut peer.cut)
        .await
        .expect("in time")
        .expect("a reason")
}

#[tokio::test(start_paused = true)]
async fn second_stream_of_a_name_is_refused_while_the_first_lives() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut first = Peer::open(&handle, Wish::new(1, "billing"))
        .await
        .expect("the first");
    first.records(4).await;
    let second = Peer::open(&handle, Wish::new(2, "billing")).await;
    assert_eq!(second.err(), Some(Refusal::InUse));
    // The goodbye of the refused session is nobody's.
    first.tell(Input::Detach(Session(2), Departure::Lost)).await;
    let lane = first.accepted.subscriber;
    let _third = Peer::open(&handle, Wish::new(3, "shipping"))
        .await
        .expect("another name");
    assert!(first.is_quiet(LONG / 4).await);
    first
        .tell(Input::Detach(Session(1), Departure::Closed))
        .await;
    let again = Peer::open(&handle, Wish::new(4, "billing"))
        .await
        .expect("the first has gone");
    assert_ne!(again.accepted.subscriber, lane, "somebody new");
}

#[tokio::test(start_paused = true)]
async fn takeover_ends_the_older_stream_and_what_it_had_is_delivered_again() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut first = Peer::open(&handle, Wish::new(1, "billing"))
        .await
        .expect("the first");
    let lane = first.records(4).await[0].lane;
    let takeover = Wish {
        takeover: true,
        ..Wish::new(2, "billing")
    };
    let mut second = Peer::open(&handle, takeover).await.expect("it takes over");
    assert_eq!(cut(&mut first).await, End::Superseded);
    assert_eq!(second.accepted.subscriber, first.accepted.subscriber);
    let again = second.records(4).await;
    assert!(again.iter().all(|got| got.delivery == 2), "L6: {again:?}");
    // What the older stream still says is heard by nobody.
    let (session, range) = (first.session, OffsetRange::one(Offset::new(0)));
    let delivery = None;
    first
        .tell(Input::Settle {
            session,
            sequence: 9,
            verdicts: vec![LaneVerdict {
                lane,
                target: Target { range, delivery },
                verdict: Verdict::Rejected,
                code: String::new(),
                reason: String::new(),
            }],
            refused: Vec::new(),
            confirm: Confirm::Applied,
            ticket: None,
        })
        .await;
    first.tell(Input::Detach(session, Departure::Closed)).await;
    assert!(second.settle(lane, 0, 3, Verdict::Acked).await.is_empty());
    assert!(broker.with(|state| state.letters.is_empty()), "L4");
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&4)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn takeover_of_a_stream_that_is_just_closing_does_no_harm() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    for (session, close_first) in [(1, true), (3, false)] {
        let mut first = Peer::open(&handle, Wish::new(session, "billing"))
            .await
            .expect("the first");
        first.records(4).await;
        let goodbye = Input::Detach(Session(session), Departure::Closed);
        let takeover = Wish {
            takeover: true,
            ..Wish::new(session + 1, "billing")
        };
        let mut second = if close_first {
            first.tell(goodbye).await;
            Peer::open(&handle, takeover).await.expect("nobody there")
        } else {
            let second = Peer::open(&handle, takeover).await.expect("it takes over");
            first.tell(goodbye).await;
            second
        };
        assert_eq!(offsets(&second.records(4).await), [0, 1, 2, 3]);
        second
            .tell(Input::Detach(Session(session + 1), Departure::Closed))
            .await;
    }
    let passed = |state: &mut BrokerState| state.commits.iter().any(|(_, to)| *to > 0);
    assert!(!broker.with(passed), "L6");
}
