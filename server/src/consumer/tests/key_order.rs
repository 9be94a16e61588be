//! Order by key: who gets which record of a key, and when.

use super::*;

const BY_KEY: Order = Order::Key { share: 250 };

fn append(broker: &Memory, keys: &[u64]) {
    for (offset, key) in (0..).zip(keys) {
        broker.append_keyed(0, offset, *key);
    }
}

async fn nothing_for(peer: &mut Peer) {
    assert!(
        peer.is_quiet(Duration::from_secs(3)).await,
        "more than its keys"
    );
}

#[tokio::test(start_paused = true)]
async fn l9_one_record_of_a_key_is_out_and_a_failed_one_keeps_its_place() {
    // FC-64, with the keys in turn.
    let broker = Memory::default();
    append(&broker, &[1, 2, 1, 2, 1, 2]);
    let handle = start(&broker, BY_KEY);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let first = peer.records(2).await;
    let retry_after = Some(Duration::from_secs(1));
    peer.say(first[0], Verdict::Failed { retry_after }).await;
    let begun = Instant::now();
    let mut seen = Vec::new();
    peer.say(first[1], Verdict::Acked).await;
    while seen.len() < 5 {
        let got = peer.batch().await;
        seen.extend(offsets(&got));
        peer.ack(&got).await;
        if got.iter().any(|got| got.offset == 5) {
            assert!(
                begun.elapsed() < Duration::from_secs(1),
                "the other key waits"
            );
        }
    }
    assert_eq!(seen, [3, 5, 0, 2, 4]);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_with_its_subscriber_until_that_pauses_or_goes() {
    for how in ["pauses", "closes", "is lost"] {
        let broker = Memory::default();
        append(&broker, &[1, 1, 1, 1]);
        let handle = start(&broker, BY_KEY);
        let mut first = Peer::attach(&handle, 1, 100).await;
        let got = first.records(1).await;
        let mut second = Peer::attach(&handle, 2, 100).await;
        first.ack(&got).await;
        let got = first.records(1).await;
        assert_eq!(offsets(&got), [1], "it stays, with another one waiting");
        nothing_for(&mut second).await;
        match how {
            "pauses" => {
                first.grant(0, 0).await;
                nothing_for(&mut second).await;
                first.ack(&got).await;
            }
            "closes" => first.leave(Departure::Closed).await,
            _ => first.leave(Departure::Lost).await,
        }
        let got = second.records(1).await;
        let expected = if how == "pauses" { 2 } else { 1 };
        assert_eq!(offsets(&got), [expected], "{how}");
        if how == "pauses" {
            first.grant(100, 1 << 20).await;
            second.ack(&got).await;
            assert_eq!(offsets(&second.records(1).await), [3], "it moved for good");
            nothing_for(&mut first).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_without_credit_keeps_its_keys_and_others_go_on() {
    let broker = Memory::default();
    append(&broker, &[1, 2, 2, 1, 2]);
    let handle = start(&broker, BY_KEY);
    let mut full = Peer::attach(&handle, 1, 1).await;
    let of_first = full.records(1).await;
    assert_eq!(offsets(&of_first), [0]);
    let mut other = Peer::attach(&handle, 2, 100).await;
    for offset in [1, 2, 4] {
        let got = other.records(1).await;
        assert_eq!(offsets(&got), [offset]);
        other.ack(&got).await;
    }
    nothing_for(&mut other).await;
    full.ack(&of_first).await;
    assert_eq!(offsets(&full.records(1).await), [3]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_never_settles_leaves_the_window_to_the_others() {
    let broker = Memory::default();
    // A window of 100 records: the hot key alone has five times as many.
    let keys: Vec<u64> = (0..1500)
        .map(|n| if n % 3 == 0 { n + 9 } else { 0 })
        .collect();
    append(&broker, &keys);
    let handle = start(&broker, BY_KEY);
    let mut peer = Peer::attach(&handle, 1, 50).await;
    let (mut others, mut hot) = (0, 0);
    while others < 500 {
        let got = peer.batch().await;
        for got in got {
            if got.offset % 3 == 0 {
                peer.ack(&[got]).await;
                others += 1;
            } else {
                hot += 1;
            }
        }
    }
    assert_eq!(hot, 1, "L9");
    let shown = handle.show().await.expect("it runs");
    assert_eq!(shown.lanes[0].lane.behind, 999);
}

#[tokio::test(start_paused = true)]
async fn a_poison_of_a_key_is_dead_lettered_and_the_key_goes_on_once_that_is_written() {
    let broker = Memory::default();
    append(&broker, &[1, 1]);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, BY_KEY);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    nothing_for(&mut peer).await;
    broker.with(|state| state.letters_fail = false);
    let next = peer.records(1).await;
    assert_eq!(offsets(&next), [1], "L3");
    assert_eq!(broker.with(|state| state.letters.len()), 1);
}

fn append_keyed_sized(broker: &Memory, offset: u64, key: u64, size: usize) {
    broker.with(|state| state.keys.insert((0, offset), key));
    broker.append_sized(0, [offset], size);
}

#[tokio::test(start_paused = true)]
async fn a_record_too_large_for_the_owner_of_its_key_goes_to_one_that_accepts_it() {
    let broker = Memory::default();
    append_keyed_sized(&broker, 0, 1, 10);
    append_keyed_sized(&broker, 1, 1, 10_000);
    append_keyed_sized(&broker, 2, 1, 10);
    let handle = start(&broker, BY_KEY);
    let small = Wish {
        max_message_bytes: 4096,
        ..Wish::new(1, "small")
    };
    let mut small = Peer::open(&handle, small).await.expect("it may attach");
    let got = small.records(1).await;
    let mut large = Peer::attach(&handle, 2, 100).await;
    small.ack(&got).await;
    let got = large.records(1).await;
    assert_eq!(offsets(&got), [1]);
    large.ack(&got).await;
    eventually(&broker, "the commit", |state| {
        state.committed.get(&0) == Some(&2)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_comes_back_paused_gives_up_its_keys() {
    let broker = Memory::default();
    append(&broker, &[1, 1]);
    let handle = start(&broker, BY_KEY);
    let resumable = Wish {
        resumable: true,
        ..Wish::new(1, "billing")
    };
    let mut first = Peer::open(&handle, resumable.clone())
        .await
        .expect("it may attach");
    let got = first.records(1).await;
    let held = Held {
        topic: "orders".to_owned(),
        partition: 0,
        epoch: 1,
        range: OffsetRange::inclusive(Offset::new(0), Offset::new(0)),
        offsets: (0, 0),
        delivery: None,
    };
    let again = Wish {
        session: 2,
        records: 0,
        resume: Some(Manifest {
            token: first.accepted.token.clone().expect("a token"),
            held: vec![held],
        }),
        ..resumable
    };
    // The new stream comes before the gateway has noticed the end of the old one.
    let mut again = Peer::open(&handle, again).await.expect("it is back");
    let mut other = Peer::attach(&handle, 7, 100).await;
    again.ack(&got).await;
    assert_eq!(offsets(&other.records(1).await), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_key_order_keeps_back_is_told_until_its_key_goes_on() {
    let broker = Memory::default();
    append(&broker, &[1, 1, 1]);
    let handle = start(&broker, BY_KEY);
    let mut peer = Peer::attach(&handle, 1, 50).await;
    for left in [2, 1] {
        let got = peer.records(1).await;
        let shown = handle.show().await.expect("it runs");
        let why = shown.lanes[0].why.clone().expect("it waits");
        assert_eq!(why.kind, ReasonKind::BehindKey);
        let words = format!("records that wait for an earlier one of their key: {left}");
        assert_eq!(why.text, words);
        peer.ack(&got).await;
    }
    let got = peer.records(1).await;
    let shown = handle.show().await.expect("it runs");
    assert_eq!(shown.lanes[0].why, None, "the last one is out");
    peer.ack(&got).await;
}
