//! Whose certificate is trusted, on either side.

use std::time::Duration;

use ackgate_client::{Publisher, Subscriber};
use futures::StreamExt as _;
use tokio::time::timeout;

use super::{HERE, https, is_about_tls, refused, trusting};
use crate::support::{Authority, Case, Gateway, Identity, PATIENCE, Stage, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: gateway_that_is_not_trusted_is_an_error_at_once,
            client_certificates_are_required_where_there_is_an_authority;
    ]
}

async fn gateway_that_is_not_trusted_is_an_error_at_once(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let (ours, theirs) = (
        Authority::new(stage.folder(), "ours"),
        Authority::new(stage.folder(), "theirs"),
    );
    let subscriptions = [stage.subscription(&topic)];
    let gateway = Gateway::start_with(&stage, &subscriptions, &ours.signs(&HERE).lines()).await;
    let address = https(gateway.address);
    let error = refused(&address, Some(trusting(&theirs)), None).await;
    is_about_tls(&error, "UnknownIssuer");
    let elsewhere = trusting(&ours).server_name("elsewhere.internal");
    let error = refused(&address, Some(elsewhere), None).await;
    is_about_tls(&error, "elsewhere.internal");
    // The system knows none of our authorities, if it has any.
    let error = refused(&address, None, None).await;
    assert!(!error.is_retryable(), "{error:?}");
    let publisher = Publisher::builder(&address).tls(trusting(&theirs));
    let error = timeout(PATIENCE, publisher.connect())
        .await
        .expect("in time");
    is_about_tls(&error.expect_err("it is refused"), "UnknownIssuer");

    let expired = ours.signs_until(&HERE, 2020);
    let gateway = Gateway::start_with(&stage, &subscriptions, &expired.lines()).await;
    gateway.logs("has ended: clients refuse it").await;
    let error = refused(&https(gateway.address), Some(trusting(&ours)), None).await;
    is_about_tls(&error, "expired");
}

async fn client_certificates_are_required_where_there_is_an_authority(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    stage.produce(&topic, &["one"]).await;
    let (ours, theirs) = (
        Authority::new(stage.folder(), "ours"),
        Authority::new(stage.folder(), "theirs"),
    );
    let top = ours.signs(&HERE).lines()
        + &format!("listen.tls.client_ca_file = {:?}\n", ours.certificate());
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    gateway.logs("client_certificates=required").await;
    let address = https(gateway.address);
    let with = |it: Identity| trusting(&ours).identity_files(it.certificate, it.key);

    let mut subscriber = Subscriber::builder(&address, "orders")
        .tls(with(ours.signs(&["client"])))
        .connect()
        .await
        .expect("its certificate is one of ours");
    subscriber.next().await.unwrap().expect("a record").ack();
    subscriber.close().await.expect("it is closed");

    for (tls, about) in [
        (trusting(&ours), "CertificateRequired"),
        (with(theirs.signs(&["client"])), "received fatal alert"),
        (
            with(ours.signs_until(&["client"], 2020)),
            "CertificateExpired",
        ),
    ] {
        // What the gateway says comes after the client's part of the handshake, and may come
        // too early to be seen by the call: then the next try tells.
        let millis = Duration::from_millis;
        let builder = Subscriber::builder(&address, "orders").tls(tls);
        let builder = builder.backoff(millis(1), millis(10));
        let error = timeout(PATIENCE, builder.connect()).await.expect("in time");
        is_about_tls(&error.expect_err("it is refused"), about);
    }
}
