//! `ackgate sub`: receives the records of a subscription, prints them and gives
//! every one the same verdict.
//!
//! Invariant: a record is answered only after it was printed.

#![allow(
    clippy::print_stderr,
    reason = "the summary of a command goes to standard error"
)]

use std::{
    io::{self, ErrorKind},
    process::ExitCode,
    time::{Duration, Instant},
};

use ackgate_client::{Batch, Stats, Subscriber};
use anyhow::{Context as _, Result};
use tokio::{io::AsyncWriteExt as _, time};

use super::{
    output,
    stop::{INTERRUPTED, Stop},
    target,
};

mod args;
pub(super) mod print;
mod summary;

pub use args::Args;
use print::{Format, Place};
use summary::Summary;

/// Code and reason of the verdicts that this command gives.
const CODE: &str = "ackgate-sub";
const REASON: &str = "ackgate sub was told to give this verdict";

/// After this long without the gateway the command says what it waits for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to say about each record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Verdict {
    /// It is done.
    #[default]
    Ack,
    /// It becomes a dead letter.
    Reject,
    /// It comes again after a backoff.
    Fail,
    /// It comes again at once.
    Release,
    /// Nothing; what is out is given back at the end.
    None,
}

/// Runs `ackgate sub` until it is stopped by SIGINT or SIGTERM, or is done.
///
/// # Errors
/// The gateway refused the subscription or did not confirm the goodbye, or
/// standard output cannot be written.
pub async fn run(args: Args) -> Result<ExitCode> {
    let ended = subscribe(&args).await;
    ended.map_err(|error| args.access.explained(error))
}

async fn subscribe(args: &Args) -> Result<ExitCode> {
    let mut stop = Stop::new()?;
    let mut subscriber = tokio::select! {
        subscriber = connect(args) => subscriber?,
        () = stop.asked() => return Ok(ExitCode::SUCCESS),
        () = unheard(args.quiet) => return Ok(ExitCode::SUCCESS),
    };
    let mut work = Work::new(args);
    let result = work.receive(&mut subscriber, &mut stop).await;
    let closed = tokio::select! {
        closed = subscriber.close() => closed,
        () = stop.asked() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    work.summary(&subscriber.stats()).print(args.json);
    result?;
    closed.context("the last verdicts may not count: their records come again")?;
    Ok(ExitCode::SUCCESS)
}

async fn connect(args: &Args) -> Result<Subscriber> {
    let address = target::gateway(&args.address);
    // What is above the maximum would only have to be given back.
    let most = args
        .max
        .map_or(args.credit, |max| u32::try_from(max).unwrap_or(u32::MAX));
    let builder = args
        .builder(&address)?
        .credit(args.credit.min(most), 64 << 20);
    let mut connecting = std::pin::pin!(builder.connect());
    match time::timeout(PATIENCE, &mut connecting).await {
        Ok(result) => Ok(result?),
        Err(_) => {
            match &args.id {
                Some(id) if !args.takeover => eprintln!(
                    "waiting for a gateway at {address} on which no other subscriber is {id:?}"
                ),
                Some(_) | None => eprintln!("waiting for a gateway at {address}"),
            }
            Ok(connecting.await?)
        }
    }
}

/// What the loop needs to know between batches.
struct Work {
    verdict: Verdict,
    fail_every: Option<u64>,
    left: Option<u64>,
    format: Option<Format>,
    idle: Option<Duration>,
    received: u64,
    bytes: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    text: Vec<u8>,
}

impl Work {
    fn new(args: &Args) -> Self {
        let format = if args.json {
            Format::Json
        } else {
            Format::Text
        };
        Self {
            verdict: args.verdict,
            fail_every: args.fail_every,
            left: args.max,
            format: (!args.quiet).then_some(format),
            idle: args.exit_when_idle,
            received: 0,
            bytes: 0,
            first: None,
            last: None,
            text: Vec::new(),
        }
    }

    async fn receive(&mut self, subscriber: &mut Subscriber, stop: &mut Stop) -> Result<()> {
        let mut unheard = std::pin::pin!(unheard(self.format.is_none()));
        while self.left != Some(0) {
            let batch = tokio::select! {
                biased;
                () = stop.asked() => break,
                batch = subscriber.next_batch() => batch?,
                () = pause(self.idle) => break,
                // `ackgate sub … | head` has seen enough, and no record comes to tell.
                () = &mut unheard => break,
            };
            let Some(batch) = batch else { break };
            let batch = self.count(batch);
            if self.format.is_some() {
                let printed = tokio::select! {
                    biased;
                    printed = self.print(&batch) => printed,
                    () = stop.asked() => Err(io::Error::from(ErrorKind::Interrupted)),
                };
                if let Err(error) = printed {
                    batch.release_all();
                    // `ackgate sub … | head` has seen enough.
                    if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) {
                        break;
                    }
                    return Err(error).context("cannot write to standard output");
                }
            }
            self.answer(batch);
        }
        Ok(())
    }

    /// Counts a batch, cut to what is still wanted.
    fn count(&mut self, mut batch: Batch) -> Batch {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        if let Some(left) = &mut self.left {
            let wanted = usize::try_from(*left).unwrap_or(usize::MAX);
            if batch.len() > wanted {
                batch.split_off(wanted).release_all();
            }
            *left = left.saturating_sub(as_u64(batch.len()));
        }
        let size = |part: Option<&[u8]>| as_u64(part.map_or(0, <[u8]>::len));
        self.bytes += batch
            .records()
            .map(|it| size(it.key()) + size(it.value()))
            .sum::<u64>();
        batch
    }

    async fn print(&mut self, batch: &Batch) -> io::Result<()> {
        let Some(format) = self.format else {
            return Ok(());
        };
        self.text.clear();
        for record in batch.records() {
            let (attempt, delivery) = batch.numbers(record.offset());
            let place = Place {
                topic: batch.topic(),
                partition: batch.partition(),
                epoch: batch.epoch(),
                attempt,
                delivery,
            };
            print::record(format, &place, record, &mut self.text)?;
        }
        let mut out = tokio::io::stdout();
        out.write_all(&self.text).await?;
        out.flush().await
    }

    fn answer(&mut self, batch: Batch) {
        let before = self.received;
        self.received += as_u64(batch.len());
        match self.fail_every {
            Some(every) if before / every != self.received / every => {
                for (nth, delivery) in (before + 1..).zip(batch) {
                    if nth.is_multiple_of(every) {
                        delivery.fail(REASON);
                        continue;
                    }
                    match self.verdict {
                        Verdict::Ack => delivery.ack(),
                        Verdict::Reject => delivery.reject(CODE, REASON),
                        Verdict::Fail => delivery.fail(REASON),
                        Verdict::Release => delivery.release(),
                        Verdict::None => delivery.leave(),
                    }
                }
            }
            Some(_) | None => match self.verdict {
                Verdict::Ack => batch.ack_all(),
                Verdict::Reject => batch.reject_all(CODE, REASON),
                Verdict::Fail => batch.fail_all("", REASON),
                Verdict::Release => batch.release_all(),
                Verdict::None => batch.leave_all(),
            },
        }
    }

    fn summary(&self, stats: &Stats) -> Summary {
        let seconds = match (self.first, self.last) {
            (Some(first), Some(last)) => last.duration_since(first).as_secs_f64(),
            (None, _) | (_, None) => 0.0,
        };
        Summary::new(self.received, self.bytes, seconds, stats)
    }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Waits until nobody reads what is printed any more; for ever, if nothing is.
async fn unheard(quiet: bool) {
    if quiet {
        return futures::future::pending().await;
    }
    output::unread(io::stdout()).await;
}

/// Waits for `duration`, or for ever.
async fn pause(duration: Option<Duration>) {
    match duration {
        Some(duration) => time::sleep(duration).await,
        None => futures::future::pending().await,
    }
}
