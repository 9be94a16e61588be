//! The course of a demo: start the parts, watch them, stop them in order, sum up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    Args, DEAD_LETTERS, ORDERS, PARTITIONS, PORT,
    gateway::Running,
    ledger::Ledger,
    orders::Orders,
    subscriber,
    summary::Summary,
    view::{Now, View, say},
    watch::{Look, Watch},
    writer::{self, Written},
};
use crate::{
    broker::kafka::embedded::{Embedded, Options},
    cli::{output, target::Target},
};

/// Time to account for every record.
const DEADLINE: Duration = Duration::from_secs(60);

/// Time to account for the last ones after Ctrl-C.
const LAST: Duration = Duration::from_secs(15);

/// Between two looks at the broker.
const TICK: Duration = Duration::from_millis(200);

/// How a demo ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) summary: Summary,
    /// By Ctrl-C, or because nobody reads what it says.
    pub(super) interrupted: bool,
}

/// The parts at work.
#[derive(Debug)]
struct Play {
    /// Nobody was invited to take part.
    alone: bool,
    /// It ends once all is committed.
    ending: bool,
    started: Instant,
    written: Arc<Written>,
    ledger: Arc<Mutex<Ledger>>,
    watch: Watch,
    view: View,
}

/// Runs a demo to its end.
///
/// # Errors
/// A part could not be started, or failed.
pub(super) async fn run(args: &Args) -> Result<Ended> {
    let started = Instant::now();
    let broker = spawn_blocking(broker).await??;
    let bootstrap = broker.bootstrap();
    let cluster = Target::of(&bootstrap).cluster()?.context("no cluster")?;
    let usual = if args.once { 0 } else { PORT };
    let mut gateway = Running::start(&bootstrap, args.port.unwrap_or(usual)).await?;
    introduce(args, &bootstrap, &gateway);

    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (stop_writing, stop_answering) = (CancellationToken::new(), CancellationToken::new());
    let orders = Orders::new(args.seed);
    let (written, mut writer) = writer::start(
        cluster.clone(),
        orders,
        args.records,
        args.once,
        stop_writing.clone(),
    );
    let address = gateway.address.clone();
    let answering = subscriber::run(address, Arc::clone(&ledger), stop_answering.clone());
    let mut subscriber = tokio::spawn(answering);
    let watch = Watch::new(cluster).await?;
    let mut play = Play {
        alone: args.once,
        ending: args.once,
        started,
        written,
        ledger,
        watch,
        view: View::new(),
    };

    let interrupted = tokio::select! {
        done = play.watch(DEADLINE) => { done?; false }
        _ = tokio::signal::ctrl_c() => true,
        // It ends by itself otherwise.
        () = unread(), if !args.once => true,
        failed = failed(&mut writer, &mut subscriber, &mut gateway.task) => {
            play.view.clear();
            return Err(failed);
        }
    };
    stop_writing.cancel();
    if interrupted && !args.once {
        writer.await??;
        play.ending = true;
        play.watch(LAST).await?;
    }
    play.view.clear();
    stop_answering.cancel();
    subscriber.await??;
    gateway.stop().await?;
    let summary = play.sum_up().await?;
    drop(broker);
    Ok(Ended {
        summary,
        interrupted,
    })
}

/// Waits until nobody reads one of its outputs any more.
async fn unread() {
    tokio::select! {
        () = output::unread(std::io::stdout()) => {}
        () = output::unread(std::io::stderr()) => {}
    }
}

fn broker() -> Result<Embedded> {
    let topics = vec![
        (ORDERS.to_owned(), PARTITIONS),
        (DEAD_LETTERS.to_owned(), 1),
    ];
    Ok(Embedded::start(Options {
        topics,
        ..Options::default()
    })?)
}

fn introduce(args: &Args, bootstrap: &str, gateway: &Running) {
    let Running { address, pages, .. } = gateway;
    say(&format!(
        "Kafka    {bootstrap}, in memory inside this process: nothing is kept\n\
         Gateway  {address}\n\
         Pages    {pages}"
    ));
    if !args.once {
        say(&format!(
            "\nIn another terminal, take some of the orders:\n  \
             ackgate sub {ORDERS} --address {address}\n\
             or add your own:\n  \
             echo hello | ackgate pub {ORDERS} --address {address}\n\
             Ctrl-C ends the demo.\n"
        ));
    }
    say("The first subscriber of a group waits three seconds for others.");
}

/// Resolves with the error of the first part that fails; parts that end well are
/// not waited for.
async fn failed(
    writer: &mut JoinHandle<Result<()>>,
    subscriber: &mut JoinHandle<Result<()>>,
    gateway: &mut JoinHandle<Result<()>>,
) -> anyhow::Error {
    let part = |name, ended: Result<Result<()>, tokio::task::JoinError>| match ended {
        Ok(Ok(())) => anyhow::anyhow!("the {name} ended by itself"),
        Ok(Err(error)) => error.context(format!("the {name} failed")),
        Err(error) => anyhow::Error::new(error).context(format!("the {name} failed")),
    };
    let writes = async {
        match writer.await {
            // It has written all there is to write.
            Ok(Ok(())) => std::future::pending().await,
            ended => part("writer", ended),
        }
    };
    tokio::select! {
        error = writes => error,
        ended = subscriber => part("subscriber", ended),
        ended = gateway => part("gateway", ended),
    }
}

impl Play {
    /// Shows how it stands; returns once all is committed, if there is an end to it,
    /// or after `deadline`: the summary then says what is open.
    async fn watch(&mut self, deadline: Duration) -> Result<()> {
        let until = Instant::now() + deadline;
        loop {
            let written = self.written.records();
            let look = self.watch.look().await?;
            let counts = self.ledger.lock().counts();
            let now = Now {
                written,
                counts,
                look,
            };
            let done = self.written.has_begun() && now.look.all_committed();
            let end = self.ending && (done || Instant::now() >= until);
            self.view.show(&now, end);
            if end {
                return Ok(());
            }
            sleep(TICK).await;
        }
    }

    /// Sums up from what the broker has, now that nobody writes to it any more.
    async fn sum_up(&self) -> Result<Summary> {
        let look: Look = self.watch.look().await?;
        let dead_lettered = self.watch.dead_letters().await?;
        if dead_lettered > look.dead_letters {
            bail!(
                "{dead_lettered} records have dead letters, but there are {}",
                look.dead_letters
            );
        }
        let counts = self.ledger.lock().counts();
        let written = (self.written.records(), self.written.poison());
        let elapsed = self.started.elapsed();
        Ok(Summary::new(
            written,
            counts,
            dead_lettered,
            &look,
            self.alone,
            elapsed,
        ))
    }
}
