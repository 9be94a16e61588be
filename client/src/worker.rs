//! [`Worker`]: runs a handler for each record, many at a time, and answers by what it
//! returns.
//!
//! Boundary: built on what every program has ([`Subscriber`] and its deliveries), but for
//! the deadlines, which it moves for all that is in hand at once.

use std::{fmt, future, pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

mod hand;
mod handler;
mod line;

pub use handler::{HandlerError, Message};

use crate::{Delivery, Error, Order, Stats, Subscriber, event::Verdict};
use hand::{Done, Trouble};
use line::{Lines, Slot};

/// How many may wait behind others of their key or lane for each that is worked on.
const WAITING_EACH: usize = 64;

/// How long a lane that failed waits for the gateway to say what is void, which it does
/// at once.
const PAUSE: Duration = Duration::from_secs(1);

/// How often deadlines are looked at while none is known.
const IDLE_BEAT: Duration = Duration::from_secs(1);

/// Works through a subscription with a handler; made by [`Subscriber::worker`].
///
/// For each record it calls the handler in a task of its own, for at most
/// [`concurrency`](Self::concurrency) at a time, and answers by what came of it:
///
/// | the handler | verdict | code |
/// |---|---|---|
/// | returned `Ok` | acked | |
/// | returned a [`HandlerError`] | what it says | what it says |
/// | returned any other error, with `?` | failed | `handler` |
/// | panicked | failed | `handler-panic` |
/// | took longer than [`handler_timeout`](Self::handler_timeout) | failed | `handler-timeout` |
/// | was cut off by the shutdown | released | |
///
/// Deadlines are moved for everything in hand, what waits for its turn included, as long as
/// the gateway allows (1 h for each delivery). So ask for no more
/// [credit](crate::Builder::credit) than is worked through in some minutes: what waits here,
/// nobody else gets.
///
/// ```no_run
/// use std::time::Duration;
/// use ackgate_client::{HandlerError, Message, Subscriber};
///
/// async fn store(order: Message) -> Result<(), HandlerError> {
///     let text = str::from_utf8(order.value().unwrap_or_default())
///         .map_err(|error| HandlerError::reject("not-text", error.to_string()))?;
///     tokio::fs::write(format!("orders/{}", order.offset()), text).await?;
///     Ok(())
/// }
///
/// # async fn example() -> Result<(), ackgate_client::Error> {
/// let summary = Subscriber::builder("http://127.0.0.1:7654", "orders")
///     .credit(64, 16 << 20)
///     .connect()
///     .await?
///     .worker()
///     .concurrency(16)
///     .handler_timeout(Duration::from_secs(60))
///     .shutdown(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
///     .run(store)
///     .await?;
/// println!("{summary}");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is worked on before `run`"]
pub struct Worker {
    subscriber: Subscriber,
    concurrency: usize,
    order: Option<Order>,
    timeout: Option<Duration>,
    finish_within: Duration,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What a [`Worker`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkSummary {
    /// Records acked.
    pub acked: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Records failed, those of panics and time-outs included.
    pub failed: u64,
    /// Records released: by their handler, or because the shutdown came first.
    pub released: u64,
    /// Handlers that panicked.
    pub panicked: u64,
    /// Handlers that took too long.
    pub timed_out: u64,
    /// Handlers that the shutdown cut off.
    pub cut_off: u64,
    /// The subscriber's counts at the end.
    pub stats: Stats,
}

impl Subscriber {
    /// Works through the records with `handler`, one after the other, until the stream ends;
    /// [`worker`](Self::worker) does many at a time.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub async fn run<H, F>(self, handler: H) -> Result<WorkSummary, Error>
    where
        H: Fn(Message) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.worker().run(handler).await
    }

    /// Begins to describe how records are worked on.
    pub fn worker(self) -> Worker {
        Worker {
            subscriber: self,
            concurrency: 1,
            order: None,
            timeout: None,
            finish_within: Duration::from_secs(10),
            shutdown: Box::pin(future::pending()),
        }
    }
}

impl Worker {
    /// Sets how many records are worked on at a time, 1 (the default) or more. No more than
    /// the credit are ever in hand.
    pub const fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = if concurrency == 0 { 1 } else { concurrency };
        self
    }

    /// Sets which records are worked on one after the other: those of a key, of a lane, or
    /// none. Without it, as the subscription orders them.
    ///
    /// It is of use where the subscription's order is weaker: with order `none` two records
    /// of a key are then not worked on at the same time *here*; another subscriber may have
    /// one of them, and one that failed comes after later ones. With order `lane` anything
    /// weaker gives that order up.
    pub const fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Sets the longest that a handler may take. Without it there is no limit but the
    /// gateway's: 1 h after the hand-over its verdict no longer counts.
    pub const fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Stops when `signal` resolves: a signal of the system, a channel, or the
    /// `cancelled_owned` of a `CancellationToken`.
    ///
    /// Nothing more is begun then, what waits is released, and handlers at work have
    /// [`finish_within`](Self::finish_within).
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Sets how long handlers may go on after the shutdown (default 10 s). What is not done
    /// by then is cut off and released.
    pub const fn finish_within(mut self, limit: Duration) -> Self {
        self.finish_within = limit;
        self
    }

    /// Works until the shutdown, or until the stream ends; then says goodbye.
    ///
    /// Dropping this future cuts the handlers off and releases what they worked on.
    ///
    /// # Errors
    /// What ended the stream for good, or the goodbye's as for [`Subscriber::close`].
    /// Handlers at work have had their time in either case.
    pub async fn run<H, F>(self, handler: H) -> Result<WorkSummary, Error>
    where
        H: Fn(Message) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let order = self.order.or_else(|| self.subscriber.order());
        let mut shift = Shift {
            handler: Arc::new(handler),
            concurrency: self.concurrency,
            timeout: self.timeout,
            subscriber: self.subscriber,
            tasks: JoinSet::new(),
            lines: Lines::new(order.unwrap_or(Order::None)),
            ready: Vec::new(),
            beat_at: Instant::now(),
            summary: WorkSummary::default(),
        };
        let result = shift.work(self.shutdown).await;
        shift.finish(self.finish_within).await;
        let closed = shift.subscriber.close().await;
        shift.summary.stats = shift.subscriber.stats();
        result.and(closed).map(|_| shift.summary)
    }
}

/// A worker at work.
struct Shift<H> {
    handler: Arc<H>,
    concurrency: usize,
    timeout: Option<Duration>,
    subscriber: Subscriber,
    tasks: JoinSet<Done>,
    lines: Lines,
    /// What may be worked on as soon as there is room, the first one last.
    ready: Vec<(Delivery, Option<Slot>)>,
    /// When deadlines are moved next.
    beat_at: Instant,
    summary: WorkSummary,
}

impl<H, F> Shift<H>
where
    H: Fn(Message) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    async fn work(&mut self, mut shutdown: impl Future<Output = ()> + Unpin) -> Result<(), Error> {
        loop {
            self.begin();
            let takes = self.ready.is_empty()
                && self.tasks.len() < self.concurrency
                && self.lines.waiting() < self.concurrency.saturating_mul(WAITING_EACH);
            let due = self.lines.due();
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                Some(done) = self.tasks.join_next() => self.done(done.ok()),
                () = time::sleep_until(self.beat_at) => self.beat(),
                () = at(due) => self.ready.extend(self.lines.resume(Instant::now())),
                next = self.subscriber.next(), if takes => match next {
                    Some(delivery) => self.ready.extend(self.lines.enter(delivery?)),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Begins what is ready, as far as there is room.
    fn begin(&mut self) {
        while self.tasks.len() < self.concurrency
            && let Some((delivery, slot)) = self.ready.pop()
        {
            let handler = Arc::clone(&self.handler);
            self.tasks
                .spawn(hand::work(handler, delivery, slot, self.timeout));
        }
    }

    /// `None`: it was cut off, and released.
    fn done(&mut self, done: Option<Done>) {
        let Some(done) = done else {
            self.summary.released += 1;
            self.summary.cut_off += 1;
            return;
        };
        let summary = &mut self.summary;
        *match done.verdict {
            Verdict::Acked => &mut summary.acked,
            Verdict::Rejected => &mut summary.rejected,
            Verdict::Failed => &mut summary.failed,
            Verdict::Released => &mut summary.released,
        } += 1;
        match done.trouble {
            Some(Trouble::Panicked) => summary.panicked += 1,
            Some(Trouble::TimedOut) => summary.timed_out += 1,
            None => {}
        }
        let Some(slot) = done.slot else { return };
        let comes_again = matches!(done.verdict, Verdict::Failed | Verdict::Released);
        if comes_again && done.rewinds {
            let until = Instant::now() + PAUSE;
            self.lines.pause(&slot, done.run.first, until);
        } else {
            self.ready.extend(self.lines.leave(slot));
        }
    }

    fn beat(&mut self) {
        let every = self.subscriber.keep_alive().unwrap_or(IDLE_BEAT);
        self.beat_at = Instant::now() + every;
    }

    /// Gives back what was not begun, and waits for what was.
    async fn finish(&mut self, limit: Duration) {
        self.subscriber.set_credit(0, 0);
        let summary = &mut self.summary;
        summary.released += self.lines.release();
        for (delivery, _) in self.ready.drain(..) {
            delivery.release();
            summary.released += 1;
        }
        while let Some(Ok(Some(batch))) = self.subscriber.next_batch().now_or_never() {
            summary.released += u64::try_from(batch.len()).unwrap_or(u64::MAX);
            batch.release_all();
        }
        let until = Instant::now() + limit;
        while !self.tasks.is_empty() {
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => self.ended(done.ok()),
                () = time::sleep_until(self.beat_at) => self.beat(),
                () = time::sleep_until(until) => break,
            }
        }
        self.tasks.abort_all();
        while let Some(done) = self.tasks.join_next().await {
            self.ended(done.ok());
        }
    }

    /// One is done, and nothing follows it.
    fn ended(&mut self, done: Option<Done>) {
        self.done(done.map(|done| Done { slot: None, ..done }));
    }
}

/// Waits until a time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => time::sleep_until(time).await,
        None => future::pending().await,
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("concurrency", &self.concurrency)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for WorkSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            acked,
            rejected,
            failed,
            released,
            ..
        } = self;
        write!(
            f,
            "{acked} acked, {rejected} rejected, {failed} failed, {released} released"
        )
    }
}
