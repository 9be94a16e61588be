//! A client that pulls from a gateway that falls silent.

use std::time::Duration;

use ackgate_client::Subscriber;

use crate::{
    served::DEADLINE,
    support::{Gateway, PULLS, within},
};

/// Longer than the client waits for an answer that is to come at once.
const TOO_LONG: Duration = Duration::from_secs(41);

#[tokio::test]
async fn silent_gateway_is_waited_for_once() {
    let gateway = Gateway::start().await;
    let builder = Subscriber::builder(format!("http://{}", gateway.address), "orders");
    let mut orders = within("a connection", builder.puller()).await.unwrap();
    let waiting = tokio::spawn(async move { orders.pull().await });
    within("a call", PULLS.acquire()).await.unwrap().forget();
    // The gateway has a runtime of its own, where time goes on.
    tokio::time::pause();
    tokio::time::advance(TOO_LONG).await;
    tokio::time::resume();
    let error = within("the end", waiting).await.unwrap().unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(DEADLINE < TOO_LONG, "it was not waited for again");
    assert_eq!(PULLS.available_permits(), 0, "no call came behind it");
}
