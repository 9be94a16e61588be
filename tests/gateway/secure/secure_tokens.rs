//! Who shows a token, and who does not.

use std::{fs, net::SocketAddr, process::Command};

use ackgate_client::{Code, Error, Outgoing, Publisher, Subscriber};
use ackgate_proto::v1::{
    ExtendRequest, ListLanesRequest, PublishBatchRequest, PublishRequest, PullRequest,
    SettleRequest, SubscribeRequest, admin_service_client::AdminServiceClient,
    gateway_service_client::GatewayServiceClient,
};
use futures::StreamExt as _;
use tokio::time::timeout;
use tonic::{
    Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
};

use super::{HERE, https, new_token, publishes, refused, tokens_file, trusting};
use crate::support::{Authority, Case, Gateway, PATIENCE, Process, Stage, ackgate, cases, reason};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: records_go_both_ways_over_tls_with_a_token;
        embedded: commands_take_certificates_and_tokens,
            calls_without_a_known_token_are_refused;
    ]
}

/// A log of everything, and passwords of Kafka that belong in none.
const EVERYTHING: &str = "log.filter = \"trace\"
clusters.main.properties.\"sasl.password\" = \"S3cretMarker\"
clusters.main.properties.\"ssl.key.password\" = \"S3cretMarker\"
";

async fn records_go_both_ways_over_tls_with_a_token(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let (token, line) = new_token("billing").await;
    let top = [
        authority.signs(&HERE).lines(),
        tokens_file(&stage, &["# ours", &line]),
        publishes(&topic),
        EVERYTHING.to_owned(),
    ]
    .concat();
    let subscription = stage.subscription(&topic);
    let gateway = Gateway::start_with(&stage, &[subscription], &top).await;
    let address = https(gateway.address);

    let publisher = Publisher::builder(&address)
        .tls(trusting(&authority))
        .token(&token)
        .connect()
        .await
        .expect("the publisher is let in");
    let receipt = publisher.send(Outgoing::new(&topic.name, "one")).await;
    receipt.await.expect("it is written");
    assert!(publisher.close(PATIENCE).await.is_complete());

    let mut subscriber = Subscriber::builder(&address, "orders")
        .tls(trusting(&authority))
        .token(&token)
        .connect()
        .await
        .expect("the subscriber is let in");
    let delivery = subscriber.next().await.unwrap().expect("a record");
    assert_eq!(delivery.value(), Some(&b"one"[..]));
    delivery.ack();
    subscriber.close().await.expect("it is closed");
    stage.commits(&topic, 0, 1).await;

    // Who called is in the log, what they showed is not.
    gateway.logs("principal=billing").await;
    gateway.logs("client_certificates=\"not required\"").await;
    nothing_secret(&gateway, &token, &stage);
}

/// Neither the token nor a password nor a line of any key is in the gateway's log.
fn nothing_secret(gateway: &Gateway, token: &str, stage: &Stage) {
    let log = gateway.log();
    for secret in [token, "S3cretMarker", "Bearer", "bearer"] {
        assert!(!log.contains(secret), "{log}");
    }
    for entry in fs::read_dir(stage.folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "key") {
            let key = fs::read_to_string(path).unwrap();
            for line in key.lines().filter(|line| line.len() > 20) {
                assert!(!log.contains(line), "{log}");
            }
        }
    }
}

async fn commands_take_certificates_and_tokens(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let (token, line) = new_token("commands").await;
    let token_file = stage.folder().join("token");
    fs::write(&token_file, format!("{token}\n")).unwrap();
    let top = [
        authority.signs(&["gateway.internal"]).lines(),
        format!(
            "listen.tls.client_ca_file = {:?}\n",
            authority.certificate()
        ),
        tokens_file(&stage, &[&line]),
        publishes(&topic),
    ]
    .concat();
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let client = authority.signs(&["client"]);
    let input = stage.folder().join("lines");
    fs::write(&input, "one\ntwo\n").unwrap();

    let run = async |arguments: &[&str]| {
        let mut command = Command::new(ackgate());
        command.args(arguments);
        // As bare HOST:PORT: the options say that it is TLS.
        command.args(["--address", &gateway.address.to_string()]);
        command.args(["--tls-server-name", "gateway.internal"]);
        command.arg("--tls-cert").arg(&client.certificate);
        command.arg("--tls-key").arg(&client.key);
        command.env("ACKGATE_TLS_CA", authority.certificate());
        command.env("ACKGATE_TOKEN_FILE", &token_file);
        let mut process = Process::start(arguments[0], &mut command);
        let status = process.end().await;
        assert!(status.success(), "{status}: {}", process.err());
        process.out_from(0)
    };
    run(&["pub", &topic.name, input.to_str().unwrap()]).await;
    let printed = run(&["sub", "orders", "--max", "1", "--json"]).await;
    assert!(printed[0].contains("one"), "{printed:?}");
    let pull = [
        "pull", "orders", "--max", "1", "--wait", "20s", "--ack", "--json",
    ];
    let printed = run(&pull).await;
    assert!(printed[0].contains("two"), "{printed:?}");
    stage.commits(&topic, 0, 2).await;

    let mut command = Command::new(ackgate());
    command.args(["token", "hash", "commands"]);
    let file = fs::File::open(&token_file).unwrap();
    let mut process = Process::start_with_input("ackgate token", &mut command, file.into());
    assert!(process.end().await.success(), "{}", process.err());
    assert_eq!(
        process.out_from(0),
        [line],
        "the same line as when it was made"
    );
}

/// A connection of the usual library, over TLS.
async fn connection(address: SocketAddr, authority: &Authority) -> Channel {
    let pem = fs::read(authority.certificate()).unwrap();
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
    let endpoint = Endpoint::from_shared(https(address)).unwrap();
    let endpoint = endpoint.tls_config(tls).unwrap();
    endpoint.connect().await.expect("the gateway is trusted")
}

/// A call with these values of the header.
fn call<T>(message: T, authorization: &[&str]) -> Request<T> {
    let mut request = Request::new(message);
    for value in authorization {
        let metadata = request.metadata_mut();
        metadata.append("authorization", value.parse().unwrap());
    }
    request
}

// FC-105: secrets appear nowhere, not in a log of everything either.
async fn calls_without_a_known_token_are_refused(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let (token, line) = new_token("known").await;
    let top = [
        authority.signs(&HERE).lines(),
        tokens_file(&stage, &[&line]),
        publishes(&topic),
        EVERYTHING.to_owned(),
    ]
    .concat();
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let connection = connection(gateway.address, &authority).await;
    let mut client = GatewayServiceClient::new(connection.clone());
    let wrong = format!("{token}x");
    let cases: [(Vec<String>, &str); 4] = [
        (vec![], "TOKEN_MISSING"),
        (vec![format!("Basic {token}")], "TOKEN_MISSING"),
        (vec![format!("Bearer {token}"); 2], "TOKEN_MISSING"),
        (vec![format!("Bearer {wrong}")], "TOKEN_UNKNOWN"),
    ];
    for (given, expected) in &cases {
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let check = |status: Option<Status>| {
            let status = status.expect("the call is refused");
            assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
            assert_eq!(&reason(&status), expected, "{status:?}");
            assert!(!status.message().contains(&token), "{status:?}");
        };
        // Refused by its headers: no stream comes to be that could end later.
        let stream = futures::stream::pending::<SubscribeRequest>();
        check(client.subscribe(call(stream, &given)).await.err());
        let stream = futures::stream::pending::<PublishRequest>();
        check(client.publish(call(stream, &given)).await.err());
        let batch = PublishBatchRequest::default();
        check(client.publish_batch(call(batch, &given)).await.err());
        let pull = PullRequest::default();
        check(client.pull(call(pull, &given)).await.err());
        let settle = SettleRequest::default();
        check(client.settle(call(settle, &given)).await.err());
        let extend = ExtendRequest::default();
        check(client.extend(call(extend, &given)).await.err());
    }
    // The same connection with the token: the call is heard, and lacks records.
    let authorization = format!("bearer {token}");
    let batch = call(PublishBatchRequest::default(), &[&authorization]);
    let status = client.publish_batch(batch).await.expect_err("no records");
    assert_eq!(reason(&status), "RECORDS_OUT_OF_RANGE");

    only_health_is_open(&connection, &token).await;

    let address = https(gateway.address);
    for (token, expected) in [(None, "TOKEN_MISSING"), (Some("x"), "TOKEN_UNKNOWN")] {
        // It would wait for ever if it tried again.
        let error = refused(&address, Some(trusting(&authority)), token).await;
        assert_eq!(error.reason(), Some(expected), "{error:?}");
        assert!(
            !error.is_retryable() && !matches!(error, Error::GaveUp { .. }),
            "{error:?}"
        );
    }
    gateway.logs("a call is refused").await;
    nothing_secret(&gateway, &token, &stage);
}

/// Without a token: neither reflection nor what does not exist, but health.
async fn only_health_is_open(connection: &Channel, token: &str) {
    let mut health = HealthClient::new(connection.clone());
    let request = HealthCheckRequest::default();
    health.check(request).await.expect("health needs no token");

    let ask = || futures::stream::pending::<ServerReflectionRequest>();
    let mut reflection = ServerReflectionClient::new(connection.clone());
    let status = reflection.server_reflection_info(call(ask(), &[])).await;
    assert_eq!(reason(&status.expect_err("no token")), "TOKEN_MISSING");
    let authorization = format!("Bearer {token}");
    let answered = reflection.server_reflection_info(call(ask(), &[&authorization]));
    timeout(PATIENCE, answered)
        .await
        .expect("in time")
        .expect("a token");

    let mut operators = AdminServiceClient::new(connection.clone());
    let lanes = ListLanesRequest::default();
    let status = operators.list_lanes(call(lanes.clone(), &[])).await;
    assert_eq!(reason(&status.expect_err("no token")), "TOKEN_MISSING");
    let status = operators.list_lanes(call(lanes, &[&authorization])).await;
    let status = status.expect_err("operators are served elsewhere");
    assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
}
