//! What ends a subscriber, and how it is told.

use std::{net::SocketAddr, time::Duration};

use ackgate_client::{Builder, Code, Error, Subscriber};
use futures::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::support::{Gateway, within};

fn refusal(code: Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "ackgate", []);
    Status::with_error_details(code, "no such subscription", details)
}

#[tokio::test]
async fn refused_open_is_an_error_of_connect_with_its_reason() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let session = gateway.session().await;
    session
        .fail(refusal(Code::NotFound, "SUBSCRIPTION_UNKNOWN"))
        .await;
    let error = within("connect", connecting).await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some("SUBSCRIPTION_UNKNOWN"));
    assert!(!error.is_retryable());
    assert!(
        matches!(
            &error,
            Error::Status {
                code: Code::NotFound,
                ..
            }
        ),
        "{error:?}"
    );
    let said = "the gateway answered NotFound (SUBSCRIPTION_UNKNOWN): no such subscription";
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn violated_fields_are_in_the_message() {
    let details = ErrorDetails::with_bad_request_violation("open.credit.records", "too many");
    let status = Status::with_error_details(Code::InvalidArgument, "bad open", details);
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    gateway.session().await.fail(status).await;
    let error = within("connect", connecting).await.unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("bad open; open.credit.records: too many"),
        "{error}"
    );
}

#[tokio::test]
async fn refusal_of_a_running_stream_is_its_last_item() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.batch(1, [0]).await;
    session
        .fail(refusal(Code::PermissionDenied, "PERMISSION_REVOKED"))
        .await;
    let mut errors = Vec::new();
    while let Some(item) = within("an item", subscriber.next()).await {
        errors.extend(item.err());
    }
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].reason(), Some("PERMISSION_REVOKED"));
}

#[tokio::test]
async fn only_what_trying_again_can_help_is_retryable() {
    let fatal = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::FailedPrecondition,
        Code::OutOfRange,
        Code::Unimplemented,
    ];
    for code in 0..=16 {
        let code = Code::from_i32(code);
        let error = Error::from(Status::new(code, ""));
        assert_eq!(error.is_retryable(), !fatal.contains(&code), "{code:?}");
        assert_eq!(error.reason(), None);
    }
    assert!(Error::Silent(Duration::ZERO).is_retryable());
    assert!(!Error::Protocol("").is_retryable());
}

#[tokio::test]
async fn subscriber_gives_up_after_the_allowed_retries() {
    let mut gateway = Gateway::start().await;
    gateway.kill();
    let error = within("connect", gateway.builder().max_retries(3).connect())
        .await
        .unwrap_err();
    let Error::GaveUp { retries: 3, last } = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(**last, Error::Unreachable { .. }), "{last:?}");
    assert!(
        error.to_string().contains(&gateway.address.to_string()),
        "{error}"
    );
}

/// Answers every connection like a server of TLS that was not spoken to in TLS.
async fn speaks_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 24];
            stream.read_exact(&mut hello).await.unwrap();
            // A fatal alert: unexpected message.
            stream.write_all(&[21, 3, 3, 0, 2, 2, 10]).await.unwrap();
            kept.push(stream);
        }
    });
    address
}

#[tokio::test]
async fn gateway_that_speaks_tls_is_an_error_at_once_that_says_so() {
    let address = speaks_tls().await;
    for given in [format!("http://{address}"), address.to_string()] {
        // Retried for ever, if it were retried.
        let connecting = Subscriber::connect(&given, "orders");
        let error = within("connect", connecting).await.unwrap_err();
        assert!(matches!(error, Error::Tls { .. }), "{error:?}");
        let said = format!("{given} speaks TLS: its address must begin with https://");
        assert!(error.to_string().contains(&said), "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn session_that_was_of_use_begins_the_count_of_retries_anew() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_retries(1);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    for offset in 0..3 {
        session.batch(1, [offset]).await;
        within("a delivery", subscriber.next())
            .await
            .unwrap()
            .unwrap()
            .ack();
        session.fail(Status::unavailable("")).await;
        session = gateway.session().await;
        session.open().await;
    }
    assert_eq!(subscriber.stats().records, 3);
}

#[tokio::test]
async fn stream_that_begins_with_anything_but_opened_is_refused() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let session = gateway.session().await;
    session.batch(1, [0]).await;
    let error = within("connect", connecting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
}

#[tokio::test]
async fn gateway_that_does_not_open_is_tried_again() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(
        gateway
            .builder()
            .open_timeout(Duration::from_millis(50))
            .connect(),
    );
    let silent = gateway.session().await;
    gateway.session().await.open().await;
    within("connect", connecting).await.unwrap().unwrap();
    drop(silent);
}

#[tokio::test]
async fn option_outside_its_range_is_refused_before_anything_is_sent() {
    type Spoil = fn(Builder) -> Builder;
    let spoilt: [(&str, Spoil); 9] = [
        ("credit", |it| it.credit(0, 1)),
        ("credit", |it| it.credit(1_000_001, 1)),
        ("credit", |it| it.credit(1, (1 << 30) + 1)),
        ("max_message_bytes", |it| it.max_message_bytes(4_095)),
        ("ack_deadline", |it| {
            it.ack_deadline(Duration::from_millis(99))
        }),
        ("subscriber_id", |it| it.subscriber_id("a\nb")),
        ("subscriber_id", |it| it.subscriber_id("x".repeat(257))),
        ("backoff", |it| it.backoff(Duration::ZERO, Duration::ZERO)),
        ("flush", |it| it.flush(Duration::ZERO, 0)),
    ];
    for (name, spoil) in spoilt {
        // Nobody listens at this address: reaching it would not end.
        let builder = spoil(Subscriber::builder("http://127.0.0.1:9", "orders"));
        let error = within(name, builder.connect()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Option { option, .. } if *option == name),
            "{error:?}"
        );
    }
    for address in ["", "not an address", "/orders"] {
        let error = within(address, Subscriber::connect(address, "orders"))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::Option {
                    option: "address",
                    ..
                }
            ),
            "{address}: {error:?}"
        );
    }
    let error = Subscriber::connect("http://127.0.0.1:9", "")
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Option {
                option: "subscription",
                ..
            }
        ),
        "{error:?}"
    );
}
