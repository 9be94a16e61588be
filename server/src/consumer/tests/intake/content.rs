//! Values that are not what they must be.

use super::*;

#[tokio::test(start_paused = true)]
async fn content_that_is_refused_takes_the_route_of_rejected_records() {
    let intake = content(Check::Json, OnFailure::Reject);
    let bench = bench(intake.clone(), |_| {});
    for (offset, value) in (0..).zip(["{}", "{", "[1]"]) {
        put(&bench.broker, 0, record(offset, 0, "a", value));
    }
    let tombstone = v1::Record {
        value: None,
        ..record(3, 0, "a", "")
    };
    put(&bench.broker, 0, tombstone);
    bench.broker.with(|state| state.letters_fail = true);
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    let got = peer.records(3).await;
    assert_eq!(offsets(&got), [0, 2, 3], "null passes");
    for offset in [0, 2, 3] {
        peer.settle(got[0].lane, offset, offset, Verdict::Acked)
            .await;
    }
    eventually(&bench.broker, "L3: up to the dead letter", |state| {
        state.committed.get(&0) == Some(&1)
    })
    .await;
    assert_eq!(bench.handle.counts().content_rejected, 0);
    bench.broker.with(|state| state.letters_fail = false);
    counted(&bench.handle, |counts| counts.content_rejected == 1).await;
    let letters = bench.broker.with(|state| state.letters.clone());
    assert_eq!(header(&letters[0], "cause"), Some(&b"content"[..]));
    assert_eq!(header(&letters[0], "attempts"), Some(&b"0"[..]));
    assert_eq!(letters[0].value.as_deref(), Some(&b"{"[..]));
    eventually(&bench.broker, "all is settled", |state| {
        state.committed.get(&0) == Some(&4)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn content_that_is_dropped_skipped_or_delivered_is_counted_as_that() {
    let drop = |subscription: &mut Subscription| {
        subscription.policy.on_reject = OnReject::Drop;
        subscription.dead_letter = None;
    };
    for (on_failure, expected) in [
        (OnFailure::Reject, (1, 0, 0)),
        (OnFailure::Skip, (0, 1, 0)),
        (OnFailure::Deliver, (0, 0, 1)),
    ] {
        let bench = bench(content(Check::Utf8, on_failure), drop);
        let broken = v1::Record {
            value: Some(Bytes::from_static(b"\xff")),
            ..record(0, 0, "a", "")
        };
        put(&bench.broker, 0, broken);
        put(&bench.broker, 0, record(1, 0, "a", "fine"));
        let mut peer = Peer::attach(&bench.handle, 1, 100).await;
        let delivered = on_failure == OnFailure::Deliver;
        let got = peer.records(1 + usize::from(delivered)).await;
        assert_eq!(got[0].offset, u64::from(!delivered));
        let counts = counted(&bench.handle, |counts| !counts.is_empty()).await;
        let counts = (
            counts.content_rejected,
            counts.content_skipped,
            counts.content_delivered,
        );
        assert_eq!(counts, expected, "{on_failure:?}");
        peer.settle(got[0].lane, got[0].offset, 1, Verdict::Acked)
            .await;
        eventually(&bench.broker, "all is settled", |state| {
            state.committed.get(&0) == Some(&2)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn l9_what_is_unfit_holds_its_key_until_its_dead_letter_is_written() {
    let intake = content(Check::Json, OnFailure::Reject);
    let bench = bench(intake, |subscription| {
        subscription.policy.order = Order::Key { share: 250 };
    });
    bench.broker.with(|state| {
        state.letters_fail = true;
        state.keys.extend([((0, 0), 7), ((0, 1), 7), ((0, 2), 8)]);
    });
    for (offset, value) in (0..).zip(["{", "{}", "[1]"]) {
        put(&bench.broker, 0, record(offset, 0, "a", value));
    }
    let mut peer = Peer::attach(&bench.handle, 1, 100).await;
    assert_eq!(offsets(&peer.records(1).await), [2], "another key goes on");
    assert!(peer.is_quiet(Duration::from_secs(5)).await);
    bench.broker.with(|state| state.letters_fail = false);
    assert_eq!(offsets(&peer.records(1).await), [1]);
}
