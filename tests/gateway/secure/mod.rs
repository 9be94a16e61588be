//! TLS, certificates of clients, and tokens.

mod secure_certificates;
mod secure_handshakes;
mod secure_tokens;

use std::{fs, net::SocketAddr, process::Command};

use ackgate_client::{Error, Subscriber, Tls};
use tokio::time::timeout;

use crate::support::{Authority, Case, PATIENCE, Process, Stage, Topic, ackgate};

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        secure_tokens::cases(),
        secure_certificates::cases(),
        secure_handshakes::cases(),
    ];
    cases.into_iter().flatten().collect()
}

/// The names that the gateway of a test has.
const HERE: [&str; 2] = ["localhost", "127.0.0.1"];

fn https(address: SocketAddr) -> String {
    format!("https://{address}")
}

fn trusting(authority: &Authority) -> Tls {
    Tls::new().ca_file(authority.certificate())
}

/// What `ackgate token new` prints: a token, and its line.
async fn new_token(name: &str) -> (String, String) {
    let mut command = Command::new(ackgate());
    let mut process = Process::start("ackgate token", command.args(["token", "new", name]));
    assert!(process.end().await.success(), "{}", process.err());
    let [token, line] = &process.out_from(0)[..] else {
        panic!("it prints two lines: {:?}", process.out_from(0));
    };
    (token.clone(), line.clone())
}

/// A file of these lines, and the gateway's line for it.
fn tokens_file(stage: &Stage, lines: &[&str]) -> String {
    let path = stage.folder().join("tokens");
    fs::write(&path, lines.join("\n")).unwrap();
    // As a path from the configuration's folder.
    "listen.tokens_file = \"tokens\"\n".to_owned()
}

fn publishes(topic: &Topic) -> String {
    format!("clusters.main.publish.topics = [{:?}]\n", topic.name)
}

/// Connects a subscriber that does not try again; what it is told.
async fn refused(address: &str, tls: Option<Tls>, token: Option<&str>) -> Error {
    let mut builder = Subscriber::builder(address, "orders").max_retries(0);
    if let Some(tls) = tls {
        builder = builder.tls(tls);
    }
    if let Some(token) = token {
        builder = builder.token(token);
    }
    timeout(PATIENCE, builder.connect())
        .await
        .expect("it is told in time")
        .expect_err("it is refused")
}

/// The error of a certificate: at once, and for good.
#[track_caller]
fn is_about_tls(error: &Error, about: &str) {
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(about), "{about} in {error}");
}
