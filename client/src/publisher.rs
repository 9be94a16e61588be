//! [`Publisher`]: writes records and tells of each what became of it.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tokio::{
    sync::{Mutex, oneshot},
    time,
};

use crate::{Addresses, Error, dial::Dialer};

mod encode;
mod ledger;
mod options;
mod outgoing;
mod receipt;
mod run;
mod session;

pub use encode::EncodeError;
use ledger::Ledger;
pub use options::{Acks, PublisherBuilder};
pub use outgoing::Outgoing;
pub use receipt::{NotWritten, NotWrittenKind, Receipt, Written};
use session::Context;

/// Time that the stream has beyond the close timeout to come to an end.
const CLOSE_SLACK: Duration = Duration::from_secs(2);

/// Time that records have after the publisher was dropped.
const DROPPED: Duration = Duration::from_secs(30);

/// Writes records to Kafka through a gateway.
///
/// [`send`](Self::send) takes a record and gives a [`Receipt`] for it, which resolves to
/// where the record was written or to why it was not. Records are sent in the order of
/// their `send`s, many in a message, and any number of tasks may send at once.
///
/// What is sent and not answered is bounded ([`PublisherBuilder::max_in_flight`]): beyond
/// that `send` waits. The publisher connects again by itself when the connection or the
/// gateway is lost, or when the gateway says that it is about to stop. Records that no
/// stream was given yet go to the next one. Those that were given to a stream that broke
/// may or may not be written; [`PublisherBuilder::retry_unanswered`] says what becomes of
/// them.
///
/// Call [`close`](Self::close) at the end. A publisher that is dropped without it sends
/// what it has in the background, for at most 30 s and only as long as the runtime lives;
/// receipts still tell what became of each record, and nobody else does.
#[derive(Debug)]
pub struct Publisher {
    ledger: Arc<Ledger>,
    /// Whose turn it is to send.
    turn: Mutex<()>,
}

/// Counts since the publisher was made, over all its streams. Once it is closed, `sent` is
/// the sum of `written`, `failed` and `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishStats {
    /// Records handed to [`Publisher::send`], but for those that still wait for room.
    pub sent: u64,
    /// Records that were written.
    pub written: u64,
    /// Records that were not written.
    pub failed: u64,
    /// Records that may or may not have been written
    /// ([`NotWritten::may_be_written`]).
    pub unknown: u64,
    /// Records that were sent again because the answer to them was lost
    /// ([`PublisherBuilder::retry_unanswered`]), each time counted.
    pub resent: u64,
    /// Streams opened.
    pub sessions: u64,
    /// Streams opened after the first one.
    pub reconnects: u64,
}

impl PublishStats {
    /// Returns whether every record was written.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.written == self.sent
    }

    /// Returns how many records have no answer yet.
    #[must_use]
    pub const fn unanswered(&self) -> u64 {
        let answered = self.written + self.failed + self.unknown;
        self.sent.saturating_sub(answered)
    }
}

impl fmt::Display for PublishStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            written,
            failed,
            unknown,
            ..
        } = self;
        write!(f, "{written} written, {failed} failed, {unknown} unknown")
    }
}

impl Publisher {
    /// Begins to describe a publisher at the gateways of `addresses`: `HOST[:PORT]`, a URI such
    /// as `http://127.0.0.1:7654`, or several of either. Without a port it is 7654.
    ///
    /// It has a stream to one gateway at a time, so that records stay in order. When that one
    /// is lost or stops, the next one follows: of the addresses, and of those that their
    /// names resolve to.
    pub fn builder(addresses: impl Into<Addresses>) -> PublisherBuilder {
        PublisherBuilder::new(addresses.into())
    }

    /// Connects with default options; see [`PublisherBuilder::connect`].
    ///
    /// # Errors
    /// As [`PublisherBuilder::connect`].
    pub async fn connect(addresses: impl Into<Addresses>) -> Result<Self, Error> {
        Self::builder(addresses).connect().await
    }

    async fn start(options: PublisherBuilder, dialer: Dialer) -> Result<Self, Error> {
        let ledger = Arc::new(Ledger::new(options.in_flight(), options.linger_time()));
        // Dropped if nobody waits for `connect` any more, which ends the task.
        let publisher = Self {
            ledger: Arc::clone(&ledger),
            turn: Mutex::new(()),
        };
        let context = Context {
            options,
            dialer,
            turn: AtomicUsize::new(0),
            ledger,
        };
        let (tell, opened) = oneshot::channel();
        tokio::spawn(run::run(context, tell));
        opened.await.map_err(|_| Error::Ended)??;
        Ok(publisher)
    }

    /// Takes a record, and returns its receipt once there is room for the record: while as
    /// much as may be is under way ([`PublisherBuilder::max_in_flight`]), this waits.
    ///
    /// What is wrong with the record, or with the publisher, is told by the receipt.
    ///
    /// Cancel safe: a record is sent only if its receipt was returned.
    ///
    /// ```no_run
    /// # use ackgate_client::{NotWritten, Outgoing, Publisher};
    /// # async fn example(publisher: &Publisher) -> Result<(), NotWritten> {
    /// let receipt = publisher.send(Outgoing::new("orders", "one espresso")).await;
    /// let written = receipt.await?;
    /// println!("{}/{}@{:?}", written.topic, written.partition, written.offset);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(&self, record: Outgoing) -> Receipt {
        let _turn = self.turn.lock().await;
        self.ledger.accept(record).await
    }

    /// Waits until every record sent so far is answered. None of them lingers.
    ///
    /// Without a connection this waits for the next one; [`close`](Self::close) does not
    /// wait longer than it is told.
    ///
    /// Cancel safe.
    pub async fn flush(&self) {
        self.ledger.flush().await;
    }

    /// Takes no more records, waits until those that were sent are answered, and says
    /// goodbye; all that for at most `timeout`. Then what was given to the gateway and is not
    /// answered counts as unknown, and what was not given to it as failed.
    ///
    /// The counts are the whole truth: every record sent is in one of them. Calling it
    /// again returns them again, and a shorter timeout than the first one's counts.
    ///
    /// Cancel safe: the goodbye goes on in the background.
    pub async fn close(&self, timeout: Duration) -> PublishStats {
        self.ledger.close(timeout);
        let most = timeout.saturating_add(CLOSE_SLACK);
        if time::timeout(most, self.ledger.over()).await.is_err() {
            self.ledger.end(Some(Error::NotClosed(timeout)));
        }
        self.ledger.stats()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> PublishStats {
        self.ledger.stats()
    }

    /// Returns what ended the publisher for good, if something has: every record sent since
    /// is answered with [`NotWrittenKind::NotSent`].
    #[must_use]
    pub fn error(&self) -> Option<Arc<Error>> {
        self.ledger.error()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.ledger.close(DROPPED);
    }
}
