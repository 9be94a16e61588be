//! What the gateway says to subscribers that break the rules: a stable reason for
//! each, and nobody else notices.

use ackgate_proto::v1::{Close, Credit, Extend, Outcome, Settle, subscribe_request::Request};
use prost_types::Duration as Wire;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

use crate::{
    answers::five,
    support::{Case, Gateway, PATIENCE, Stage, Stream, cases, reason},
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: headers_come_before_the_first_message,
            unknown_subscription_is_not_found,
            stream_begins_with_open,
            second_open_ends_the_stream,
            open_with_a_bad_value_is_refused,
            credit_out_of_range_is_refused,
            message_without_a_request_is_refused,
            bad_extension_is_refused,
            garbage_on_the_port_disturbs_nobody;
    ]
}

/// A gateway that nobody has spoken to.
async fn quiet(stage: &Stage) -> Gateway {
    let topic = stage.topic("orders", 1).await;
    stage.gateway(&[stage.subscription(&topic)]).await
}

/// Sends messages on a fresh stream and checks how it ends.
async fn ends(gateway: &Gateway, requests: Vec<Request>, code: Code, expected: &str) {
    let mut stream = Stream::connect(gateway.address).await.unwrap();
    for request in requests {
        stream.send(request).await;
    }
    let status = stream.status().await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (code, expected),
        "{status:?}"
    );
}

// FC-85.
async fn headers_come_before_the_first_message(stage: Stage) {
    let gateway = quiet(&stage).await;
    let mut stream = Stream::connect(gateway.address)
        .await
        .expect("headers came");
    stream.send(Request::Open(Stream::hello("orders"))).await;
    stream.send(Request::Close(Close {})).await;
    assert_eq!(stream.status().await.code(), Code::Ok);
    assert!(stream.opened.is_some());
}

async fn unknown_subscription_is_not_found(stage: Stage) {
    let gateway = quiet(&stage).await;
    let open = Request::Open(Stream::hello("no-such-subscription"));
    ends(&gateway, vec![open], Code::NotFound, "UNKNOWN_SUBSCRIPTION").await;
}

async fn stream_begins_with_open(stage: Stage) {
    let gateway = quiet(&stage).await;
    let settle = Settle {
        sequence: 1,
        verdicts: vec![],
    };
    let credit = Credit {
        records: 1,
        bytes: 1,
    };
    for first in [
        Request::Settle(settle),
        Request::Credit(credit),
        Request::Close(Close {}),
    ] {
        ends(
            &gateway,
            vec![first],
            Code::InvalidArgument,
            "OPEN_EXPECTED",
        )
        .await;
    }
}

async fn second_open_ends_the_stream(stage: Stage) {
    let gateway = quiet(&stage).await;
    let open = Request::Open(Stream::hello("orders"));
    ends(
        &gateway,
        vec![open.clone(), open],
        Code::FailedPrecondition,
        "ALREADY_OPEN",
    )
    .await;
}

async fn open_with_a_bad_value_is_refused(stage: Stage) {
    let gateway = quiet(&stage).await;
    let mut opens = Vec::new();
    let mut open = Stream::hello("orders");
    open.max_message_bytes = 1;
    opens.push(open.clone());
    open.max_message_bytes = u64::MAX;
    opens.push(open);
    let mut open = Stream::hello("orders");
    open.ack_deadline = Some(Wire {
        seconds: -1,
        nanos: 0,
    });
    opens.push(open.clone());
    open.ack_deadline = Some(Wire {
        seconds: 3_601,
        nanos: 0,
    });
    opens.push(open);
    let mut open = Stream::hello("orders");
    open.subscriber_id = "x".repeat(257);
    opens.push(open.clone());
    open.subscriber_id = "line\nbreak".to_owned();
    opens.push(open);
    let mut open = Stream::hello("orders");
    open.confirm = 99;
    opens.push(open);
    for open in opens {
        ends(
            &gateway,
            vec![Request::Open(open)],
            Code::InvalidArgument,
            "OPEN_INVALID",
        )
        .await;
    }
}

async fn credit_out_of_range_is_refused(stage: Stage) {
    let gateway = quiet(&stage).await;
    let beyond = [
        Credit {
            records: 1_000_001,
            bytes: 1,
        },
        Credit {
            records: u32::MAX,
            bytes: u64::MAX,
        },
        Credit {
            records: 1,
            bytes: (1 << 30) + 1,
        },
    ];
    for credit in beyond {
        let open = Request::Open(Stream::hello("orders"));
        let requests = vec![open, Request::Credit(credit)];
        ends(
            &gateway,
            requests,
            Code::InvalidArgument,
            "CREDIT_OUT_OF_RANGE",
        )
        .await;
    }
}

async fn message_without_a_request_is_refused(stage: Stage) {
    let gateway = quiet(&stage).await;
    let mut stream = gateway.open().await;
    stream.send_nothing().await;
    let status = stream.status().await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason(&status), "EMPTY_REQUEST");
}

async fn bad_extension_is_refused(stage: Stage) {
    let gateway = quiet(&stage).await;
    for seconds in [None, Some(0), Some(601)] {
        let by = seconds.map(|seconds| Wire { seconds, nanos: 0 });
        let extend = Extend {
            sequence: 1,
            extensions: vec![],
            by,
        };
        let requests = vec![
            Request::Open(Stream::hello("orders")),
            Request::Extend(extend),
        ];
        let code = Code::InvalidArgument;
        ends(&gateway, requests, code, "EXTENSION_OUT_OF_RANGE").await;
    }
}

async fn garbage_on_the_port_disturbs_nobody(stage: Stage) {
    let (gateway, mut stream, records) = five(&stage).await;
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 4_096],
        &[0xff; 100_000],
        b"PRI * HTTP",
    ] {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        // The gateway may hang up while this is being written.
        socket.write_all(garbage).await.ok();
        socket.shutdown().await.ok();
        let mut answer = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut answer))
            .await
            .expect("it hangs up")
            .ok();
    }
    stream.answer_all(&records, Outcome::Acked).await;
    stream.close().await;
}
