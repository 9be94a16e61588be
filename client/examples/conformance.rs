//! The subscriber that the conformance tests of all languages run: its handler does what
//! each record's header `conformance-do` says, and everything that happens is a line of
//! JSON. For programs, not for people; `flaky` and `print` are easier to read.
//!
//! ```text
//! cargo run -p ackgate-client --example conformance -- --address 127.0.0.1:7654 --subscription orders
//! ```
//!
//! | `conformance-do` | the handler |
//! |---|---|
//! | absent, `ack` | returns |
//! | `reject:CODE` | rejects with that code |
//! | `fail:TIMES:RETRY_MS` | fails with that delay in the first `TIMES` attempts |
//! | `work:MS` | works that long, deadline or not |
//! | `raise` | returns an error that nobody expects, at the first attempt |
//!
//! Exit codes: 0 after a graceful end, also by SIGTERM or SIGINT; 1 after an error that
//! trying again does not help; 2 for a bad command line.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "lines of JSON are what it is for"
)]

use std::{
    fs, io,
    num::NonZeroUsize,
    path::PathBuf,
    process::{self, ExitCode},
    time::Duration,
};

use ackgate_client::{
    Batch, Builder, Delivery, Error, Event, HandlerError, Message, ProblemKind, Stats, Subscriber,
    Tls,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Parser;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time,
};

/// Largest value that is printed.
const SHOWN: usize = 1_024;

/// Runs the conformance cases of a subscriber.
#[derive(Debug, Parser)]
struct Args {
    /// The gateway: a URI, or HOST:PORT. May be several, with commas or more than once.
    #[arg(long, required = true, value_delimiter = ',')]
    address: Vec<String>,
    /// The subscription.
    #[arg(long)]
    subscription: String,
    /// The subscriber's name; without it the gateway makes one.
    #[arg(long, default_value = "")]
    subscriber_id: String,
    /// Most records out at a time.
    #[arg(long, default_value_t = 64)]
    credit: u32,
    /// Handlers at a time.
    #[arg(long, default_value = "8")]
    concurrency: NonZeroUsize,
    /// Largest message accepted.
    #[arg(long, default_value_t = 4 << 20)]
    max_message_bytes: u64,
    /// Time for a verdict in milliseconds; without it the subscription's.
    #[arg(long)]
    ack_deadline: Option<u64>,
    /// Ends when nothing is left.
    #[arg(long)]
    until_drained: bool,
    /// Acks whole batches instead of calling the handler.
    #[arg(long)]
    batches: bool,
    #[command(flatten)]
    access: Access,
}

/// Whom to trust, and who one is.
#[derive(Debug, clap::Args)]
struct Access {
    /// Trusts the authorities in this file, and none of the system's.
    #[arg(long)]
    tls_ca: Option<PathBuf>,
    /// Shows the certificate in this file.
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Proves it with the private key in this file.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Expects the gateway's certificate to be for this name.
    #[arg(long)]
    tls_server_name: Option<String>,
    /// Shows the token in this file.
    #[arg(long)]
    token_file: Option<PathBuf>,
}

impl Access {
    fn on(&self, mut builder: Builder) -> io::Result<Builder> {
        let mut tls = Tls::new();
        let identity = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let given = self.tls_ca.is_some() || identity.is_some() || self.tls_server_name.is_some();
        if let Some(file) = &self.tls_ca {
            tls = tls.ca_file(file);
        }
        if let Some((certificate, key)) = identity {
            tls = tls.identity_files(certificate, key);
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name);
        }
        if given {
            builder = builder.tls(tls);
        }
        if let Some(file) = &self.token_file {
            builder = builder.token(fs::read_to_string(file)?.trim());
        }
        Ok(builder)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let concurrency = args.concurrency.get();
    let stop = stop();
    let builder = match builder(&args) {
        Ok(builder) => builder,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let connected = tokio::select! {
        connected = builder.connect() => connected,
        () = stopped(stop.clone()) => {
            closed(Stats::default());
            return ExitCode::SUCCESS;
        }
    };
    let ended = match connected {
        Err(error) => Err(error),
        Ok(subscriber) if args.batches => batches(subscriber, stop).await,
        Ok(subscriber) => {
            let worker = subscriber.worker().concurrency(concurrency);
            let worker = worker.shutdown(stopped(stop)).run(handle);
            worker.await.map(|summary| summary.stats)
        }
    };
    match ended {
        Ok(stats) => {
            closed(stats);
            ExitCode::SUCCESS
        }
        Err(error @ Error::Option { .. }) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Err(error) => {
            print(&json!({
                "event": "error",
                "code": code(&error),
                "reason": error.reason().unwrap_or_default(),
                "message": error.to_string(),
            }));
            ExitCode::from(1)
        }
    }
}

fn builder(args: &Args) -> io::Result<Builder> {
    let mut builder = Subscriber::builder(args.address.clone(), args.subscription.clone())
        .subscriber_id(args.subscriber_id.clone())
        .credit(args.credit, 32 << 20)
        .max_message_bytes(args.max_message_bytes)
        .resumable(true)
        .observe(observe);
    if let Some(deadline) = args.ack_deadline {
        builder = builder.ack_deadline(Duration::from_millis(deadline));
    }
    if args.until_drained {
        builder = builder.until_drained();
    }
    args.access.on(builder)
}

/// True after the first signal; the second one ends the program.
fn stop() -> watch::Receiver<bool> {
    let (tell, stop) = watch::channel(false);
    tokio::spawn(async move {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        for last in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if last {
                process::exit(130);
            }
            tell.send_replace(true);
        }
        io::Result::Ok(())
    });
    stop
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that signals cannot be had: it is ended by other means.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending().await
    }
}

async fn handle(message: Message) -> Result<(), HandlerError> {
    print(&delivered(&message));
    let wish = message.header("conformance-do").unwrap_or(b"ack");
    let wish = str::from_utf8(wish)?;
    let attempt = message.attempt();
    match *wish.split(':').collect::<Vec<_>>().as_slice() {
        ["ack"] => Ok(()),
        ["reject", code] => Err(HandlerError::reject(code, "as the record asked")),
        ["fail", times, retry] => {
            let retry = Duration::from_millis(retry.parse()?);
            if attempt <= times.parse()? {
                let reason = format!("attempt {attempt} fails, as the record asked");
                return Err(HandlerError::fail_after("asked", reason, retry));
            }
            Ok(())
        }
        ["work", milliseconds] => {
            time::sleep(Duration::from_millis(milliseconds.parse()?)).await;
            Ok(())
        }
        ["raise"] if attempt <= 1 => Err(io::Error::other("nobody expects this"))?,
        ["raise"] => Ok(()),
        _ => Err(HandlerError::reject("conformance-do", "unknown wish")),
    }
}

async fn batches(mut subscriber: Subscriber, stop: watch::Receiver<bool>) -> Result<Stats, Error> {
    let mut stopped = Box::pin(stopped(stop));
    loop {
        let batch = tokio::select! {
            batch = subscriber.next_batch() => batch?,
            () = &mut stopped => None,
        };
        let Some(batch) = batch else { break };
        taken(&batch);
        batch.ack_all();
    }
    subscriber.close().await
}

fn taken(batch: &Batch) {
    let mut offsets = batch.records().map(|record| record.offset());
    let first = offsets.next();
    let last = offsets.last().or(first);
    print(&json!({
        "event": "batch",
        "topic": batch.topic(),
        "partition": batch.partition(),
        "records": batch.len(),
        "first_offset": first,
        "last_offset": last,
    }));
}

fn delivered(delivery: &Delivery) -> Value {
    let headers: Vec<Value> = delivery
        .headers()
        .map(|(name, value)| json!([name, encoded(value)]))
        .collect();
    let value = delivery.value();
    let (name, shown) = match value {
        Some(value) if value.len() > SHOWN => {
            let digest = Sha256::digest(value);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            ("value_sha256", Value::from(hex))
        }
        value => ("value", encoded(value)),
    };
    json!({
        "event": "delivery",
        "topic": delivery.topic(),
        "partition": delivery.partition(),
        "offset": delivery.offset(),
        "attempt": delivery.attempt(),
        "delivery": delivery.delivery_number(),
        "key": encoded(delivery.key()),
        "value_bytes": value.map_or(0, <[u8]>::len),
        "headers": headers,
        "timestamp_ms": delivery.timestamp_ms(),
        "traceparent": delivery.trace_context().map(|it| it.to_string()),
        name: shown,
    })
}

fn observe(event: &Event<'_>) {
    let line = match event {
        Event::Opened {
            session,
            subscriber_id,
            resumed,
            ..
        } => json!({
            "event": "opened",
            "session": session,
            "subscriber_id": subscriber_id,
            "resumed": resumed,
        }),
        Event::Drain { reason, .. } => json!({ "event": "drain", "reason": reason.to_string() }),
        Event::Disconnected {
            error, retry_in, ..
        } => json!({
            "event": "disconnected",
            "code": code(error),
            "reason": error.reason().unwrap_or_default(),
            "message": error.to_string(),
            "retry_in_ms": retry_in.as_millis(),
        }),
        Event::Problem(problem) => {
            // A duplicate is what was wanted.
            if problem.kind == ProblemKind::Duplicate {
                return;
            }
            let kind = format!("{:?}", problem.kind).to_lowercase();
            json!({
                "event": "problem",
                "topic": problem.topic,
                "partition": problem.partition,
                "first_offset": problem.first_offset,
                "last_offset": problem.last_offset,
                "kind": kind,
            })
        }
        Event::Answered {
            topic,
            partition,
            offset,
            attempt,
            verdict,
            ..
        } => json!({
            "event": "verdict",
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "attempt": attempt,
            "verdict": verdict.to_string(),
        }),
        _ => return,
    };
    print(&line);
}

/// The code as gRPC spells it; a stream lost without one was unavailable.
fn code(error: &Error) -> String {
    let Some(code) = error.code() else {
        return "UNAVAILABLE".to_owned();
    };
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

fn closed(stats: Stats) {
    print(&json!({
        "event": "closed",
        "acked": stats.acked,
        "rejected": stats.rejected,
        "failed": stats.failed,
        "released": stats.released,
    }));
}

fn encoded(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| BASE64_STANDARD.encode(bytes).into())
}

/// A line at once: standard output is flushed at its end.
fn print(line: &Value) {
    println!("{line}");
}
