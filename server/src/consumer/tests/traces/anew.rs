//! Spans of lanes that begin anew, and of dead letters that are stored with their commit.

use std::collections::BTreeMap;

use super::*;

// FC-91, FC-100.
#[tokio::test(start_paused = true)]
async fn reset_of_a_lane_is_told_with_its_new_epoch() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    peer.records(1).await;
    assert!(traced.spans("reset").is_empty(), "nothing began anew");
    traced.broker.with(|state| {
        state.committed.insert(0, 1);
        state.log.insert(0, BTreeMap::new());
        state.anew = Some("topic recreated".to_owned());
    });
    traced.broker.append(0, 0..2);
    traced.broker.rebalance(true);
    let lane = peer.records(2).await[0].lane;
    let reset = traced.until("reset", 1).await.remove(0);
    assert_eq!(
        (&*reset.name, &reset.span_kind),
        ("reset orders", &SpanKind::Internal)
    );
    assert_eq!(reset.parent_span_id, SpanId::INVALID);
    assert_eq!(reset.status, Status::Unset);
    let expected = [
        ("messaging.system", "kafka"),
        ("messaging.operation.name", "reset"),
        ("messaging.destination.name", "orders"),
        ("messaging.destination.partition.id", "0"),
        ("ackgate.epoch", "2"),
    ];
    for (key, value) in expected {
        assert_eq!(has(&reset, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(has(&reset, "messaging.operation.type"), None);
    // What was out went with the old lane.
    let process = traced.until("process", 1).await;
    assert_eq!(verdicts(&process), ["drained"]);
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    traced.committed(2).await;
    // The same offset is another record now: its trace follows from its place.
    let process = traced.until("process", 3).await;
    assert_eq!(verdicts(&process[1..]), ["acked", "acked"]);
    for span in &process[1..] {
        assert_ne!(trace(span), TRACE);
        assert_eq!(links(span).len(), 1, "the poll alone");
    }
    assert_eq!(traced.spans("reset").len(), 1);
}

/// One record with or without a producer's span, of a subscription that is exactly once.
fn exactly_once(headers: &[(&str, &str)]) -> Traced {
    let broker = Memory::default();
    broker.append_with(0, 0, headers);
    let mut subscription = configured(Order::None);
    subscription.policy.exactly_once = true;
    Traced::begin(broker, 1.0, subscription)
}

/// What the dead letter's only header `traceparent` says.
fn said(broker: &Memory) -> String {
    let letter = broker.with(|state| state.letters[0].clone());
    let parents = letter.headers.iter();
    let mut parents = parents.filter(|(key, _)| key.eq_ignore_ascii_case("traceparent"));
    let parent = parents.next().unwrap().1.clone().unwrap();
    assert_eq!(parents.next(), None, "exactly one");
    String::from_utf8(parent.to_vec()).unwrap()
}

// FC-100, L3.
#[tokio::test(start_paused = true)]
async fn dead_letter_that_is_stored_with_its_commit_is_told_once_for_each_try() {
    let traced = exactly_once(&[("traceparent", &producer())]);
    traced.broker.with(|state| state.commits_fail = true);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    let end = Instant::now() + LONG;
    while traced.spans("send").len() < 2 {
        assert!(Instant::now() < end, "{:#?}", traced.spans(""));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(traced.broker.with(|state| state.letters.len()), 0);
    traced.broker.with(|state| state.commits_fail = false);
    traced.committed(1).await;
    let is_good = |span: &Arc<SpanData>| span.status == Status::Unset;
    while !traced.spans("send").iter().any(is_good) {
        assert!(Instant::now() < end, "{:#?}", traced.spans(""));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let process = traced.until("process", 1).await.remove(0);
    let sends = traced.spans("send");
    let (stored, tries) = sends.split_last().unwrap();
    for span in tries {
        assert!(matches!(span.status, Status::Error { .. }), "{span:?}");
        assert_eq!(has(span, "error.type").as_deref(), Some("transient"));
    }
    for span in &sends {
        assert_eq!(
            (&*span.name, &span.span_kind),
            ("send orders.dead-letter", &SpanKind::Producer)
        );
        assert_eq!(trace(span), TRACE);
        assert_eq!(span.parent_span_id, process.span_context.span_id());
        let expected = [
            ("ackgate.dead_letter.cause", "rejected"),
            ("ackgate.source.topic", "orders"),
            ("ackgate.source.partition", "0"),
            ("ackgate.source.offset", "0"),
        ];
        for (key, value) in expected {
            assert_eq!(has(span, key).as_deref(), Some(value), "{key}");
        }
        // A transaction does not say where its records lie.
        assert_eq!(has(span, "messaging.destination.partition.id"), None);
        assert_eq!(has(span, "messaging.kafka.offset"), None);
    }
    assert!(is_good(stored));
    assert_eq!(said(&traced.broker), producer());
    // The commit that stored it links to the delivery, and no other that succeeded does.
    let commits = traced.spans("commit");
    let of = process.span_context.span_id();
    let linked = commits.iter().filter(|it| links(it).contains(&of));
    assert_eq!(linked.filter(|it| is_good(it)).count(), 1);
    // Nothing is told again once the record is settled.
    tokio::time::sleep(LONG).await;
    assert_eq!(traced.spans("send").len(), sends.len());
}

#[tokio::test(start_paused = true)]
async fn dead_letter_in_a_transaction_says_its_own_span_where_its_record_says_none() {
    let traced = exactly_once(&[]);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    traced.committed(1).await;
    let send = traced.until("send", 1).await.remove(0);
    let own = &send.span_context;
    let expected = format!("00-{}-{}-01", own.trace_id(), own.span_id());
    assert_eq!(said(&traced.broker), expected);

    // The next commit links to what it passes itself, not to that delivery again.
    traced.broker.append(0, [1]);
    peer.records(1).await;
    peer.settle(lane, 1, 1, Verdict::Acked).await;
    traced.committed(2).await;
    let process = traced.until("process", 2).await;
    let of = |commit: &Arc<SpanData>| has(commit, "ackgate.position").unwrap() == "2";
    let commits = traced.spans("commit");
    let commit = commits.iter().find(|commit| of(commit)).unwrap();
    assert_eq!(links(commit), [process[1].span_context.span_id()]);
}
