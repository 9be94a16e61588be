//! How spans end: with a deadline, a session, a lane, a seek or a failure.

use super::*;

#[tokio::test(start_paused = true)]
async fn delivery_ends_with_its_deadline_its_session_or_its_lane() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    peer.records(1).await;
    let process = traced.until("process", 1).await;
    assert_eq!(verdicts(&process), ["expired"]);
    assert_eq!(process[0].status, Status::error("expired"));
    peer.records(1).await;
    peer.leave(Departure::Lost).await;
    let mut peer = Peer::attach(&traced.handle, 2, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Released).await;
    peer.records(1).await;
    traced.broker.rebalance(true);
    let process = traced.until("process", 4).await;
    assert_eq!(
        verdicts(&process),
        ["expired", "lost", "released", "drained"]
    );
    let rebalances = traced.until("rebalance", 3).await;
    let what = |span: &Arc<SpanData>| has(span, "ackgate.rebalance").unwrap();
    let what: Vec<_> = rebalances.iter().map(what).collect();
    assert_eq!(what, ["assigned", "lost", "assigned"]);
    assert_eq!(rebalances[0].span_kind, SpanKind::Internal);
}

#[tokio::test(start_paused = true)]
async fn batch_that_was_never_handed_over_leaves_no_span() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let Outbound::Batch(_) = peer.next().await else {
        panic!("a batch is due")
    };
    peer.leave(Departure::Lost).await;
    let mut peer = Peer::attach(&traced.handle, 2, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    let process = traced.until("process", 1).await;
    assert_eq!(verdicts(&process), ["acked"]);
    assert_eq!(links(&process[0]).len(), 1, "no attempt before");
}

#[tokio::test(start_paused = true)]
async fn seek_back_is_told_and_the_trace_goes_on_over_it() {
    let broker = Memory::default();
    for offset in 0..3 {
        broker.append_with(0, offset, &[("traceparent", &producer())]);
    }
    let order = Order::Lane { skip_acked: false };
    let traced = Traced::begin(broker, 1.0, configured(order));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 0, FAILED).await;
    peer.records(3).await;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    traced.committed(3).await;
    let process = traced.until("process", 6).await;
    assert_eq!(
        verdicts(&process),
        ["failed", "rewound", "rewound", "acked", "acked", "acked"]
    );
    for (before, after) in process[..3].iter().zip(&process[3..]) {
        assert_eq!(links(after).last(), Some(&before.span_context.span_id()));
    }
    let seek = traced.until("seek", 1).await.remove(0);
    assert_eq!(
        (&*seek.name, &seek.span_kind),
        ("seek orders", &SpanKind::Client)
    );
    assert_eq!(has(&seek, "ackgate.position").as_deref(), Some("0"));
    assert_eq!(seek.status, Status::Unset);
    let commit = traced.until("commit", 1).await.remove(0);
    assert_eq!(links(&commit).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn commit_that_fails_and_a_dead_letter_that_does_are_errors() {
    let traced = Traced::one(Order::None);
    traced.broker.with(|state| {
        state.commits_fail = true;
        state.letters_fail = true;
    });
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    let end = Instant::now() + LONG;
    while traced.spans("send").is_empty() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    traced.broker.with(|state| state.letters_fail = false);
    // The record is settled only now: until its commit succeeds each try links to it.
    while traced.spans("commit").is_empty() {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let failed = |name: &str| traced.spans(name)[0].status.clone();
    assert!(matches!(failed("send"), Status::Error { .. }));
    assert!(matches!(failed("commit"), Status::Error { .. }));
    traced.broker.with(|state| state.commits_fail = false);
    traced.committed(1).await;
    let is_good = |span: &&Arc<SpanData>| span.status == Status::Unset;
    while !traced.spans("commit").iter().any(|span| is_good(&span)) {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let commits = traced.spans("commit");
    let good = commits.iter().find(is_good).unwrap();
    let process = traced.spans("process");
    assert_eq!(
        links(good).last(),
        Some(&process[0].span_context.span_id()),
        "a commit that failed took no link away"
    );
}
