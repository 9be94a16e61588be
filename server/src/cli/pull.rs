//! `ackgate pull`: takes some records of a subscription without a stream, prints them, and
//! acks them or gives them back.
//!
//! Invariant: a record is acked only after it was printed.

#![allow(
    clippy::print_stderr,
    reason = "the summary of a command goes to standard error"
)]

use std::{io::ErrorKind, process::ExitCode, time::Duration};

use ackgate_client::{Lease, Puller, Subscriber};
use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;

use super::{
    access::Access,
    bounds,
    stop::Stop,
    sub::print::{self, Format, Place},
    target,
};

/// Arguments of `ackgate pull`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Without --ack the records are given back at the end, and may come to somebody \
    else meanwhile only after that.\n\nExit codes: 0 done, also if there was no record; 1 the \
    gateway cannot be reached or refused, or an ack did not count; 2 wrong usage."
)]
pub struct Args {
    /// The subscription to take records of, as the gateway's configuration names it.
    subscription: String,

    #[doc = target::address_help!()]
    #[arg(long, env = "ACKGATE_ADDRESS", default_value = "http://127.0.0.1:7654")]
    address: String,

    #[command(flatten)]
    access: Access,

    /// The most records.
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max: u32,

    /// How long to wait for a first record, such as `10s`, up to 60 s. Without it: what is
    /// there now.
    #[arg(long, value_name = "DURATION",
        value_parser = bounds::duration(Duration::ZERO, Duration::from_secs(60)))]
    wait: Option<Duration>,

    /// Acks the records once they are printed.
    #[arg(long)]
    ack: bool,

    /// Prints records as JSON, one object a line.
    #[arg(long)]
    json: bool,

    /// The name by which dead letters and logs know this subscriber. Required for a
    /// broadcast.
    #[arg(long, value_name = "NAME", value_parser = bounds::name)]
    id: Option<String>,

    /// Ends another session or stream of the same --id.
    #[arg(long, requires = "id")]
    takeover: bool,
}

/// Runs `ackgate pull`.
///
/// # Errors
/// The gateway cannot be reached or refuses, an ack did not count, or standard output cannot
/// be written.
pub async fn run(args: Args) -> Result<ExitCode> {
    let pulled = pull(&args).await;
    pulled.map_err(|error| args.access.explained(error))
}

async fn pull(args: &Args) -> Result<ExitCode> {
    let mut stop = Stop::new()?;
    let address = target::gateway(&args.address);
    let builder = Subscriber::builder(&address, &args.subscription)
        .subscriber_id(args.id.clone().unwrap_or_default())
        .takeover(args.takeover);
    let builder = args.access.subscriber(builder)?;
    let mut puller = builder
        .puller()
        .await?
        .max_records(args.max)
        .wait(args.wait.unwrap_or_default());
    let leases = tokio::select! {
        leases = puller.pull() => leases?,
        // What the call drew is released with its connection.
        () = stop.asked() => return Ok(ExitCode::SUCCESS),
    };
    let written = write(&leases, args.json).await;
    let is_whole = written.is_ok();
    let acked = if args.ack && is_whole {
        let problems = puller.settle(leases.iter().map(Lease::acked)).await?;
        for problem in &problems {
            eprintln!(
                "{}/{}@{}: the ack did not count ({:?}): the record may come again",
                problem.topic, problem.partition, problem.first_offset, problem.kind
            );
        }
        problems.is_empty()
    } else {
        true
    };
    closed(puller).await?;
    match written {
        // `ackgate pull … | head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        written => written.context("cannot write to standard output")?,
    }
    if leases.is_empty() && !args.json {
        eprintln!("no records");
    }
    Ok(if acked {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn closed(puller: Puller) -> Result<()> {
    let closed = puller.close().await;
    closed.context("what is left comes again only after its ack deadline")
}

async fn write(leases: &[Lease], json: bool) -> std::io::Result<()> {
    let format = if json { Format::Json } else { Format::Text };
    let mut text = Vec::new();
    for lease in leases {
        let place = Place {
            topic: lease.topic(),
            partition: lease.partition(),
            epoch: lease.epoch(),
            attempt: lease.attempt(),
            delivery: lease.delivery_number(),
        };
        print::record(format, &place, lease.record(), &mut text)?;
    }
    let mut out = tokio::io::stdout();
    out.write_all(&text).await?;
    out.flush().await
}
