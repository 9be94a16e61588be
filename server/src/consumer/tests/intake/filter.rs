//! Records that nobody wants, or one subscriber does not.

use super::*;

#[tokio::test(start_paused = true)]
async fn filtered_records_move_the_commit_and_are_counted() {
    let bench = bench(filter("'b' in headers.kind || key == 'key-3'"), |_| {});
    for offset in 0..1000 {
        let kind = if offset % 100 == 50 { "b" } else { "a" };
        put(&bench.broker, 0, record(offset, 0, kind, "{}"));
    }
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(11).await;
    let wanted: Vec<u64> = (0..1000)
        .filter(|offset| *offset == 3 || offset % 100 == 50)
        .collect();
    assert_eq!(offsets(&got), wanted);
    let lane = got[0].lane;
    let unknown = peer.settle(lane, 4, 4, Verdict::Acked).await;
    assert_eq!(unknown[0].result, Ok(VerdictResult::Unknown));
    for got in got {
        assert_eq!(
            peer.settle(lane, got.offset, got.offset, Verdict::Acked)
                .await,
            []
        );
    }
    eventually(&bench.broker, "everything is passed", |state| {
        state.committed.get(&0) == Some(&1000)
    })
    .await;
    assert_eq!(bench.handle.counts().filtered, 989);
    assert!(bench.budget.used() <= 1 << 20, "grants only");
}

#[tokio::test(start_paused = true)]
async fn runs_of_filtered_records_alone_keep_the_lane_going() {
    let bench = bench(filter("false"), |_| {});
    for offset in 0..5000 {
        put(&bench.broker, 0, record(offset, 0, "a", "{}"));
    }
    let mut peer = Peer::attach(&bench.handle, 1, 1).await;
    eventually(&bench.broker, "far beyond one window", |state| {
        state.committed.get(&0) == Some(&5000)
    })
    .await;
    assert!(peer.is_quiet(LONG).await);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_the_filter_cannot_judge_is_delivered() {
    let bench = bench(filter("headers['kind'][1] == 'b'"), |_| {});
    ages(&bench.broker, &[0, 0]);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    assert_eq!(offsets(&peer.records(2).await), [0, 1]);
    let counts = bench.handle.counts();
    assert_eq!((counts.filter_failures, counts.filtered), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn in_a_broadcast_each_subscriber_may_have_its_own_filter() {
    let bench = bench(filter("offset != 9"), |subscription| {
        subscription.policy = policy(Order::Lane { skip_acked: false });
        subscription.delivery = Delivery::Broadcast(ackgate_lane::Sharing {
            cut_off_after: None,
            absent_grace: LONG,
        });
        subscription.min_subscribers = 2;
    });
    for offset in 0..10 {
        let kind = if offset % 3 == 0 { "a" } else { "b" };
        put(&bench.broker, 0, record(offset, 0, kind, "{}"));
    }
    let mut all = Peer::attach(&bench.handle, 1, 100).await;
    let own = Filter::compile("'a' in headers.kind").expect("valid");
    let wish = Wish {
        filter: Some(own),
        ..Wish::new(2, "picky")
    };
    let mut some = Peer::open(&bench.handle, wish)
        .await
        .expect("it may attach");
    let got = all.records(9).await;
    assert_eq!(offsets(&got), (0..9).collect::<Vec<_>>());
    let wanted = some.records(3).await;
    assert_eq!(offsets(&wanted), [0, 3, 6]);
    for got in wanted {
        assert_eq!(
            some.settle(got.lane, got.offset, got.offset, Verdict::Acked)
                .await,
            []
        );
    }
    assert_eq!(
        bench.broker.with(|state| state.committed.get(&0).copied()),
        None
    );
    let lane = got[0].lane;
    assert_eq!(all.settle(lane, 0, 8, Verdict::Acked).await, []);
    eventually(&bench.broker, "both are done", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    let counts = bench.handle.counts();
    assert_eq!((counts.unwanted, counts.filtered), (6, 1));
    assert!(some.is_quiet(LONG).await);
}
