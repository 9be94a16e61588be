//! What batches wait for.

use super::*;

fn batch(max_records: u32, linger: Duration, min_fill: f64) -> Batch {
    Batch {
        max_records,
        linger,
        min_fill,
        ..BATCH
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// The next batch, and how long it took to come.
async fn timed(peer: &mut Peer) -> (Vec<u64>, Duration) {
    let begun = Instant::now();
    let got = peer.batch().await;
    (offsets(&got), begun.elapsed())
}

// FC-77.
#[tokio::test(start_paused = true)]
async fn single_record_is_pushed_at_once() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    for offset in 0..10 {
        tokio::time::sleep(5 * SECOND).await;
        broker.append(0, [offset]);
        let begun = Instant::now();
        let got = peer.batch().await;
        let took = begun.elapsed();
        assert_eq!(offsets(&got), [offset]);
        assert!(took < SECOND / 10, "{took:?}");
        peer.settle(got[0].lane, offset, offset, Verdict::Acked)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_each_other_until_the_asked_part_is_full() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let shape = batch(10, 20 * SECOND, 0.5);
    let mut peer = Peer::attach_with(&handle, 1, 100, shape, false).await;
    assert!(peer.is_quiet(10 * SECOND).await, "four are no half of ten");
    broker.append(0, [4]);
    let (got, took) = timed(&mut peer).await;
    assert_eq!(got, [0, 1, 2, 3, 4], "one batch");
    assert!(took < SECOND, "{took:?}");
    broker.append(0, 5..27);
    let sizes = [timed(&mut peer).await.0, timed(&mut peer).await.0].map(|got| got.len());
    assert_eq!(sizes, [10, 10], "never more than asked for");
    assert!(peer.is_quiet(10 * SECOND).await, "two are left");
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_the_linger_and_no_longer() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach_with(&handle, 1, 100, batch(10, SECOND, 1.0), false).await;
    for round in 0..3 {
        tokio::time::sleep(5 * SECOND).await;
        let begun = Instant::now();
        broker.append(0, [2 * round]);
        tokio::time::sleep(SECOND / 2).await;
        broker.append(0, [2 * round + 1]);
        let (got, _) = timed(&mut peer).await;
        assert_eq!(got, [2 * round, 2 * round + 1]);
        let took = begun.elapsed();
        assert!(took >= SECOND && took < 3 * SECOND / 2, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_that_the_credit_keeps_from_growing() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach_with(&handle, 1, 3, batch(10, LONG, 1.0), false).await;
    let (got, took) = timed(&mut peer).await;
    assert_eq!(got, [0, 1, 2]);
    assert!(took < SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_that_the_window_keeps_from_growing() {
    let broker = Memory::default();
    broker.append(0, 0..200);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach_with(&handle, 1, 1_000, batch(1_000, LONG, 1.0), false).await;
    let (got, took) = timed(&mut peer).await;
    assert_eq!(got.len(), 100, "the window of a lane");
    assert!(took < SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn subscriber_that_does_not_wait_is_served_beside_one_that_does() {
    let broker = Memory::default();
    broker.append(0, []);
    let handle = start(&broker, Order::None);
    let mut patient = Peer::attach_with(&handle, 1, 100, batch(10, SECOND, 1.0), false).await;
    let mut other = Peer::attach(&handle, 2, 1).await;
    broker.append(0, [0, 1]);
    let (got, took) = timed(&mut other).await;
    assert_eq!(got, [0]);
    assert!(took < SECOND / 10, "{took:?}");
    assert_eq!(timed(&mut patient).await.0, [1]);
}

#[tokio::test(start_paused = true)]
async fn batch_holds_the_asked_bytes_and_a_larger_record_goes_alone() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let shape = Batch {
        max_bytes: 1,
        ..BATCH
    };
    let mut peer = Peer::attach_with(&handle, 1, 100, shape, false).await;
    for offset in 0..10 {
        assert_eq!(timed(&mut peer).await.0, [offset]);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_fill_a_batch_too() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let shape = Batch {
        max_bytes: 64,
        ..batch(1_000, LONG, 1.0)
    };
    let mut peer = Peer::attach_with(&handle, 1, 100, shape, false).await;
    let (got, took) = timed(&mut peer).await;
    assert!(!got.is_empty() && got.len() < 4, "{got:?}");
    assert!(took < SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_subscriber_without_room_does_not_keep_the_driver_busy() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach_with(&handle, 1, 100, batch(10, SECOND, 1.0), false).await;
    let pause = Credit::default();
    peer.tell(Input::Credit(peer.session, pause)).await;
    // On virtual time a driver that is woken for nothing never lets this end.
    assert!(peer.is_quiet(100 * SECOND).await);
    let some = Credit {
        records: 10,
        bytes: 1 << 20,
    };
    peer.tell(Input::Credit(peer.session, some)).await;
    assert_eq!(timed(&mut peer).await.0, [0, 1]);
}
