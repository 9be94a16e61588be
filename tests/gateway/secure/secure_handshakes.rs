//! Connections that are not what the gateway speaks, or never become one.

use std::time::Duration;

use ackgate_client::{Publisher, Subscriber};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{HERE, https, is_about_tls, refused, trusting};
use crate::support::{Authority, Case, Gateway, PATIENCE, Stage, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: tls_and_plain_text_do_not_meet,
            old_versions_of_tls_are_refused,
            handshakes_that_stand_still_keep_nobody_out;
    ]
}

async fn tls_and_plain_text_do_not_meet(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let subscriptions = [stage.subscription(&topic)];
    let secure = authority.signs(&HERE).lines();
    let secure = Gateway::start_with(&stage, &subscriptions, &secure).await;
    let plain = stage.gateway(&subscriptions).await;

    let begun = Instant::now();
    // Whoever tries for ever is told as well as whoever does not try again.
    let http = format!("http://{}", secure.address);
    let connecting = Subscriber::builder(&http, "orders").connect();
    let error = timeout(PATIENCE, connecting).await.expect("in time");
    let error = error.expect_err("it speaks TLS");
    let said = format!("{http} speaks TLS: its address must begin with https://");
    is_about_tls(&error, &said);
    let connecting = Publisher::builder(secure.address.to_string()).connect();
    let error = timeout(PATIENCE, connecting).await.expect("in time");
    is_about_tls(&error.expect_err("it speaks TLS"), "begin with https://");
    let puller = Subscriber::builder(&http, "orders").puller().await;
    let pulled = timeout(PATIENCE, puller.expect("TCP is there").pull()).await;
    let error = pulled.expect("in time").expect_err("it speaks TLS");
    is_about_tls(&error, "begin with https://");

    let error = refused(&https(plain.address), Some(trusting(&authority)), None).await;
    is_about_tls(
        &error,
        "it does not speak TLS: its address must begin with http://",
    );
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    // Neither of them minds.
    plain.open().await.close().await;
    let tls = trusting(&authority);
    let builder = Subscriber::builder(https(secure.address), "orders").tls(tls);
    builder
        .connect()
        .await
        .expect("it serves")
        .close()
        .await
        .expect("closed");
}

/// The first message of a client that knows nothing newer than this version.
fn client_hello(version: [u8; 2]) -> Vec<u8> {
    let mut hello = version.to_vec();
    hello.extend([7; 32]);
    // No session, a suite for keys like the gateway's, no compression.
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // Signatures by ECDSA with SHA-256, the curve P-256, its points as they are.
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let curves = [0, 10, 0, 4, 0, 2, 0, 23];
    let points = [0, 11, 0, 2, 1, 0];
    hello.extend([0, 22]);
    hello.extend([&signatures[..], &curves, &points].concat());
    let with_length = |kind: &[u8], wide: usize, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [kind, &length[4 - wide..], body].concat()
    };
    let message = with_length(&[1], 3, &hello);
    with_length(&[22, 3, 1], 2, &message)
}

async fn old_versions_of_tls_are_refused(stage: Stage) {
    // Kinds of messages, and what an alert says.
    const HANDSHAKE: u8 = 22;
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    const PROTOCOL_VERSION: u8 = 70;
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let top = authority.signs(&HERE).lines();
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let answer = async |version| {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(&client_hello(version)).await.unwrap();
        let mut answer = [0; 7];
        let read = timeout(PATIENCE, stream.read_exact(&mut answer)).await;
        read.expect("in time").expect("it is answered");
        answer
    };
    // TLS 1.0 and 1.1; and 1.2, so that it is the version that matters.
    for old in [[3, 1], [3, 2]] {
        let alert = answer(old).await;
        let said = (alert[0], alert[5], alert[6]);
        assert_eq!(said, (ALERT, FATAL, PROTOCOL_VERSION), "{old:?}: {alert:?}");
    }
    let new = answer([3, 3]).await;
    assert_eq!(new[0], HANDSHAKE, "{new:?}");
}

async fn handshakes_that_stand_still_keep_nobody_out(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let top = authority.signs(&HERE).lines();
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let begun = Instant::now();
    let mut idle = Vec::new();
    for number in 0..500 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        if number % 2 == 0 {
            // The first bytes of a handshake that never goes on.
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        idle.push(stream);
    }
    let builder = Subscriber::builder(https(gateway.address), "orders")
        .tls(trusting(&authority))
        .open_timeout(Duration::from_secs(9));
    let mut subscriber = timeout(PATIENCE, builder.connect())
        .await
        .expect("it gets in")
        .expect("it is let in");
    // Sooner than the first of them run out of time.
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    subscriber.close().await.expect("it is closed");
    eventually("handshakes run out of time", async || {
        match gateway.sockets() {
            few if few < 100 => Ok(()),
            many => Err(format!("{many} sockets")),
        }
    })
    .await;
    drop(idle);
}
