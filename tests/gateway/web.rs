//! gRPC-Web, as a browser speaks it: HTTP/1.1 on a socket, no library in between.

use std::{collections::BTreeMap, net::SocketAddr};

use ackgate_proto::v1::{PublishBatchRequest, PublishBatchResponse, SubscribeRequest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    publish::publishing,
    support::{Case, Gateway, PATIENCE, Stage, Topic, cases, record},
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: pages_publish_in_binary_and_in_text;
        embedded: browser_is_told_which_pages_may_call,
            page_of_another_origin_is_refused,
            streams_of_requests_are_refused_with_what_to_call_instead,
            requests_larger_than_the_limit_are_refused,
            web_is_off_unless_it_is_asked_for;
    ]
}

const PAGE: &str = "https://app.example.com";
const BATCH: &str = "/ackgate.v1.GatewayService/PublishBatch";
const BINARY: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text+proto";

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The messages and the trailers in the body.
    fn frames(&self) -> (Vec<Vec<u8>>, String) {
        let (mut messages, mut trailers) = (Vec::new(), String::new());
        let mut rest = self.body.as_slice();
        while let [flag, a, b, c, d, after @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (frame, behind) = after.split_at(length);
            match flag {
                0 => messages.push(frame.to_vec()),
                0x80 => trailers.push_str(std::str::from_utf8(frame).unwrap()),
                other => panic!("a frame of kind {other}"),
            }
            rest = behind;
        }
        assert_eq!(rest, b"", "a frame is cut off");
        (messages, trailers)
    }
}

async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut all = Vec::new();
    let talk = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        // A refusal may come before all of it is written.
        stream.write_all(body).await.ok();
        let mut bytes = [0; 64 << 10];
        while let Ok(read @ 1..) = stream.read(&mut bytes).await {
            all.extend_from_slice(&bytes[..read]);
        }
    };
    timeout(PATIENCE, talk).await.expect("the connection ends");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&all)));
    let head = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let body = all[end + 4..].to_vec();
    let is_chunked = headers
        .get("transfer-encoding")
        .is_some_and(|it| it == "chunked");
    Answer {
        status,
        headers,
        body: if is_chunked { unchunked(&body) } else { body },
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&rest[..line]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let chunk = &rest[line + 2..];
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&chunk[..length]);
        rest = &chunk[length + 2..];
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn batch(topic: &Topic, value: &str) -> Vec<u8> {
    let request = PublishBatchRequest {
        records: vec![record(topic, value)],
        ..PublishBatchRequest::default()
    };
    framed(&request.encode_to_vec())
}

async fn post(gateway: &Gateway, path: &str, content: &str, origin: &str, body: &[u8]) -> Answer {
    let headers = [
        ("content-type", content),
        ("accept", content),
        ("x-grpc-web", "1"),
        ("origin", origin),
    ];
    ask(gateway.address, "POST", path, &headers, body).await
}

async fn serving(stage: &Stage, origins: &str) -> Gateway {
    publishing(
        stage,
        &format!("listen.grpc_web = true\nlisten.web_origins = [{origins}]"),
    )
    .await
}

async fn pages_publish_in_binary_and_in_text(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = serving(&stage, &format!("\"https://b.example\", \"{PAGE}\"")).await;
    for (content, value) in [(BINARY, "first"), (TEXT, "second")] {
        let body = batch(&topic, value);
        let is_text = content == TEXT;
        let body = if is_text {
            STANDARD.encode(body).into_bytes()
        } else {
            body
        };
        let mut answer = post(&gateway, BATCH, content, PAGE, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), content);
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
        if is_text {
            // Each piece was encoded by itself.
            let text = String::from_utf8(answer.body).unwrap();
            let pieces = text.split_inclusive("=").collect::<Vec<_>>();
            answer.body = decoded(&pieces);
        }
        let (messages, trailers) = answer.frames();
        let response = PublishBatchResponse::decode(messages[0].as_slice()).unwrap();
        assert_eq!(response.results.len(), 1, "{response:?}");
        assert_eq!(response.results[0].error, 0, "{response:?}");
        assert!(trailers.contains("grpc-status:0"), "{trailers:?}");
    }
    let values: Vec<_> = stage
        .holds(&topic, 2)
        .await
        .into_iter()
        .map(|seen| seen.value)
        .collect();
    assert_eq!(values, [Some(b"first".to_vec()), Some(b"second".to_vec())]);
    // The same port goes on to speak gRPC.
    let plain = PublishBatchRequest {
        records: vec![record(&topic, "third")],
        ..PublishBatchRequest::default()
    };
    let mut calls = crate::support::calls(gateway.address).await;
    calls
        .publish_batch(plain)
        .await
        .expect("gRPC is served beside it");
}

/// Decodes pieces of base64, of which all but the padded ones may be joined.
fn decoded(pieces: &[&str]) -> Vec<u8> {
    let (mut whole, mut open) = (Vec::new(), String::new());
    for piece in pieces {
        open.push_str(piece);
        if open.len().is_multiple_of(4) {
            whole.extend(STANDARD.decode(&open).unwrap());
            open.clear();
        }
    }
    assert_eq!(open, "");
    whole
}

async fn browser_is_told_which_pages_may_call(stage: Stage) {
    let gateway = serving(&stage, &format!("\"{PAGE}\"")).await;
    let preflight = async |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "content-type,x-grpc-web,authorization,traceparent",
            ),
        ];
        ask(gateway.address, "OPTIONS", BATCH, &headers, b"").await
    };
    let answer = preflight(PAGE).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), PAGE);
    assert_eq!(answer.header("access-control-allow-methods"), "POST");
    let allowed = answer.header("access-control-allow-headers");
    for header in ["content-type", "x-grpc-web", "authorization", "traceparent"] {
        assert!(allowed.contains(header), "{header} in {allowed}");
    }
    for other in [
        "https://evil.example",
        "https://app.example.com.evil.example",
        "null",
    ] {
        let answer = preflight(other).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{other}");
    }
    // What a page may read of an answer that is a refusal.
    let topic = stage.topic("orders", 1).await;
    let answer = post(&gateway, BATCH, BINARY, PAGE, &batch(&topic, "x")).await;
    let exposed = answer.header("access-control-expose-headers");
    for header in ["grpc-status", "grpc-message", "grpc-status-details-bin"] {
        assert!(exposed.contains(header), "{header} in {exposed}");
    }
}

async fn page_of_another_origin_is_refused(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = serving(&stage, &format!("\"{PAGE}\"")).await;
    let body = batch(&topic, "unwanted");
    let answer = post(&gateway, BATCH, BINARY, "https://evil.example", &body).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let answer = post(&gateway, BATCH, BINARY, PAGE, &batch(&topic, "wanted")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = stage.holds(&topic, 1).await;
    assert_eq!(seen[0].value.as_deref(), Some(&b"wanted"[..]));

    let any = serving(&stage, "\"*\"").await;
    let answer = post(&any, BATCH, BINARY, "https://anyone.example", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn streams_of_requests_are_refused_with_what_to_call_instead(stage: Stage) {
    let gateway = serving(&stage, &format!("\"{PAGE}\"")).await;
    let body = framed(&SubscribeRequest::default().encode_to_vec());
    for (call, instead) in [
        ("Subscribe", "Pull and Settle"),
        ("Publish", "PublishBatch"),
    ] {
        let path = format!("/ackgate.v1.GatewayService/{call}");
        let answer = post(&gateway, &path, BINARY, PAGE, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("grpc-status"), "12", "{answer:?}");
        let message = answer.header("grpc-message").replace("%20", " ");
        assert!(message.contains(instead), "{message}");
        let details = answer.header("grpc-status-details-bin");
        let details = base64::engine::general_purpose::STANDARD_NO_PAD
            .decode(details)
            .unwrap();
        assert!(String::from_utf8_lossy(&details).contains("WEB_STREAM"));
    }
    // Neither gRPC-Web nor anything else that is known here.
    let answer = ask(gateway.address, "GET", "/", &[], b"").await;
    assert_eq!(answer.status, 400, "{answer:?}");
}

async fn requests_larger_than_the_limit_are_refused(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = serving(&stage, &format!("\"{PAGE}\"")).await;
    let body = batch(&topic, &"x".repeat(17 << 20));
    let answer = post(&gateway, BATCH, BINARY, PAGE, &body).await;
    assert_eq!(answer.header("grpc-status"), "3", "{answer:?}");
    // Many parts in few bytes.
    let body = framed(&[0x12, 0x00].repeat(200_001));
    let answer = post(&gateway, BATCH, BINARY, PAGE, &body).await;
    assert_eq!(answer.header("grpc-status"), "3", "{answer:?}");
}

async fn web_is_off_unless_it_is_asked_for(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!("POST {BATCH} HTTP/1.1\r\nhost: x\r\ncontent-type: {BINARY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    ended.expect("it is not kept waiting").ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(stage.broker.read(&topic.name).await.len(), 0);
}
