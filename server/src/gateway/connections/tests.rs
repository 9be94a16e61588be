//! Connections without a network.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    time::{Instant, timeout},
};

use super::*;

const LIMITS: Limits = Limits {
    age: None,
    grace: Duration::from_secs(1),
    connections: 10,
    make_room: false,
    bound: "the most",
};

fn serving() -> Serving {
    Serving {
        server: Server::builder(),
        routes: Routes::default(),
    }
}

/// Near ends that come in one after the other, and nothing after them.
fn incoming(near: Vec<DuplexStream>) -> impl Stream<Item = io::Result<DuplexStream>> {
    stream::iter(near.into_iter().map(Ok)).chain(stream::pending())
}

fn pairs(count: usize) -> (Vec<DuplexStream>, Vec<DuplexStream>) {
    (0..count).map(|_| duplex(1024)).unzip()
}

/// How long the far end is open.
async fn ends(far: &mut DuplexStream) -> Duration {
    let begun = Instant::now();
    let mut rest = Vec::new();
    // However it ends.
    drop(far.read_to_end(&mut rest).await);
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn want_of_descriptors_is_waited_out() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let wanting = stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Err::<DuplexStream, _>(rustix::io::Errno::MFILE.into())
    });
    run(wanting, serving(), LIMITS, sleep(Duration::from_secs(2))).await;
    let tries = tries.load(Ordering::Relaxed);
    assert!((10..=21).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_are_closed_and_leave_room_when_they_end() {
    let (mut near, mut far) = pairs(3);
    let last = near.pop().expect("three");
    let (more, mut later) = tokio::sync::mpsc::channel(1);
    let later = stream::poll_fn(move |cx| later.poll_recv(cx));
    let incoming = stream::iter(near.into_iter().map(Ok)).chain(later);
    let limits = Limits {
        connections: 1,
        ..LIMITS
    };
    let serving = run(incoming, serving(), limits, std::future::pending());
    let serving = tokio::spawn(serving);
    let mut third = far.pop().expect("three");
    let mut second = far.pop().expect("three");
    assert!(ends(&mut second).await < Duration::from_secs(1));
    let mut first = far.pop().expect("three");
    assert!(
        timeout(Duration::from_secs(1), ends(&mut first))
            .await
            .is_err(),
        "it is served"
    );
    drop(first);
    sleep(Duration::from_secs(1)).await;
    more.send(Ok(last)).await.expect("it is awaited");
    assert!(
        timeout(Duration::from_secs(1), ends(&mut third))
            .await
            .is_err(),
        "it has a place"
    );
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn connection_that_does_not_end_when_it_is_old_is_cut_after_its_grace() {
    let (near, mut far) = pairs(1);
    let limits = Limits {
        age: Some(Duration::from_secs(5)),
        ..LIMITS
    };
    let running = run(incoming(near), serving(), limits, std::future::pending());
    let serving = tokio::spawn(running);
    // Too little to begin with: what is asked to end waits for the rest.
    far[0].write_all(b"PRI * HTTP").await.expect("it is read");
    let open = ends(&mut far[0]).await;
    let least = Duration::from_secs_f64(5.0 * (1.0 - SPREAD)) + LIMITS.grace + LAST_WORDS;
    let most = Duration::from_secs_f64(5.0 * (1.0 + SPREAD)) + LIMITS.grace + LAST_WORDS;
    assert!(
        least <= open && open <= most + Duration::from_secs(1),
        "{open:?}"
    );
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn stop_ends_connections_and_waits_for_them() {
    let (near, mut far) = pairs(1);
    far[0]
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .expect("it is read");
    let running = run(
        incoming(near),
        serving(),
        LIMITS,
        sleep(Duration::from_secs(3)),
    );
    let serving = tokio::spawn(running);
    let open = timeout(Duration::from_secs(10), async {
        // The peer of HTTP/2 answers what it is asked at the end, or goes.
        let mut bytes = [0; 256];
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            let read = timeout(Duration::from_secs(4), far[0].read(&mut bytes)).await;
            assert!(matches!(read, Ok(Ok(1..))), "{read:?}");
        }
    });
    open.await.expect("it says that it ends");
    far.clear();
    timeout(Duration::from_secs(1), serving)
        .await
        .expect("it ends")
        .expect("it does not panic");
}

#[test]
fn ages_are_spread_by_a_tenth() {
    let age = Duration::from_secs(1000);
    let ages: Vec<Duration> = (0..1000).map(|_| spread(age)).collect();
    let (least, most) = (ages.iter().min(), ages.iter().max());
    assert!(least >= Some(&Duration::from_secs(900)) && least < Some(&Duration::from_secs(920)));
    assert!(most <= Some(&Duration::from_secs(1100)) && most > Some(&Duration::from_secs(1080)));
}
