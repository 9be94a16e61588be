//! When a publisher's stream ends, and what it has been told by then.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};

use super::*;
use crate::{
    broker::{Answers as _, Placed},
    publish::Entry,
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A ledger, the ends of its signals, and what its writer sends.
struct Stream {
    ledger: Arc<Ledger>,
    drain: watch::Sender<Option<Instant>>,
    ended: watch::Sender<Option<Instant>>,
    halt: CancellationToken,
    messages: mpsc::Receiver<Result<v1::PublishResponse, Status>>,
    writing: JoinHandle<Written>,
}

impl Stream {
    fn new() -> Self {
        let ledger = Ledger::new(100, 0, Arc::new(Semaphore::new(0)), TIMEOUT, Arc::default());
        let (drain, drain_heard) = watch::channel(None);
        let (ended, ended_heard) = watch::channel(None);
        let signals = Signals {
            drain: drain_heard,
            ended: ended_heard,
        };
        let halt = CancellationToken::new();
        let (transport, messages) = mpsc::channel(1);
        let (book, stop) = (Arc::clone(&ledger), halt.clone());
        let writing = tokio::spawn(async move { run(&book, &transport, signals, &stop).await });
        Self {
            ledger,
            drain,
            ended,
            halt,
            messages,
            writing,
        }
    }

    /// Takes records and gives the number of the first.
    fn take(&self, records: usize) -> u64 {
        let entry = || Entry {
            topic: "t".into(),
            partition: None,
            weight: 1,
            refused: None,
        };
        self.ledger.take((0..records).map(|_| entry()).collect())
    }

    fn confirm(&self, number: u64) {
        let placed = Placed {
            partition: 0,
            offset: 1,
        };
        self.ledger.answer(number, Ok(placed));
    }

    async fn message(&mut self) -> Response {
        let message = self.messages.recv().await.expect("the writer writes");
        let message = message.expect("it is no status");
        message.response.expect("it says something")
    }

    /// The errors of the next results.
    async fn errors(&mut self) -> Vec<v1::PublishError> {
        match self.message().await {
            Response::Results(results) => results.results.iter().map(|it| it.error()).collect(),
            other @ (Response::Opened(_) | Response::Closed(_) | Response::Drain(_)) => {
                panic!("{other:?}")
            }
        }
    }

    fn ends_by(ended: &watch::Sender<Option<Instant>>, after: Duration) {
        ended.send_replace(Some(Instant::now() + after));
    }
}

use v1::PublishError::{TimedOut, Unspecified as Fine};

#[tokio::test(start_paused = true)]
async fn close_waits_for_answers_and_then_ends() {
    let mut stream = Stream::new();
    stream.take(2);
    stream.confirm(0);
    assert_eq!(stream.errors().await, [Fine]);
    Stream::ends_by(&stream.ended, TIMEOUT);
    tokio::time::sleep(TIMEOUT / 2).await;
    assert!(!stream.writing.is_finished(), "one has no answer");
    stream.confirm(1);
    assert_eq!(stream.errors().await, [Fine]);
    assert_eq!(stream.writing.await.unwrap(), Written::All);
}

#[tokio::test(start_paused = true)]
async fn close_ends_at_its_deadline_with_an_answer_for_all() {
    let mut stream = Stream::new();
    stream.take(3);
    stream.confirm(1);
    let begin = Instant::now();
    Stream::ends_by(&stream.ended, Duration::from_secs(2));
    assert_eq!(stream.errors().await, [TimedOut, Fine, TimedOut]);
    assert_eq!(begin.elapsed(), Duration::from_secs(2));
    assert_eq!(stream.writing.await.unwrap(), Written::All);
    assert!(stream.halt.is_cancelled(), "nothing more is read");
}

#[tokio::test(start_paused = true)]
async fn close_without_time_does_not_wait() {
    let mut stream = Stream::new();
    stream.take(1);
    let begin = Instant::now();
    Stream::ends_by(&stream.ended, Duration::ZERO);
    assert_eq!(stream.errors().await, [TimedOut]);
    assert_eq!(stream.writing.await.unwrap(), Written::All);
    assert!(begin.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn drain_is_told_and_ends_once_all_is_answered_and_nothing_comes() {
    let mut stream = Stream::new();
    stream.take(1);
    Stream::ends_by(&stream.drain, TIMEOUT);
    assert!(matches!(stream.message().await, Response::Drain(_)));
    tokio::time::sleep(TIMEOUT / 2).await;
    assert!(!stream.writing.is_finished(), "one has no answer");
    stream.confirm(0);
    assert_eq!(stream.errors().await, [Fine]);
    let begin = Instant::now();
    assert_eq!(stream.writing.await.unwrap(), Written::All);
    assert!(begin.elapsed() <= QUIET, "{:?}", begin.elapsed());
    assert!(
        begin.elapsed() > QUIET / 2,
        "it has time to close by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn drain_ends_at_once_when_the_publisher_does() {
    let mut stream = Stream::new();
    Stream::ends_by(&stream.drain, TIMEOUT);
    assert!(matches!(stream.message().await, Response::Drain(_)));
    let begin = Instant::now();
    Stream::ends_by(&stream.ended, TIMEOUT);
    assert_eq!(stream.writing.await.unwrap(), Written::All);
    assert!(begin.elapsed() < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn drain_is_over_at_its_deadline_whatever_the_broker_does() {
    let mut stream = Stream::new();
    stream.take(2);
    let begin = Instant::now();
    Stream::ends_by(&stream.drain, Duration::from_secs(3));
    assert!(matches!(stream.message().await, Response::Drain(_)));
    assert_eq!(stream.errors().await, [TimedOut, TimedOut]);
    assert_eq!(stream.writing.await.unwrap(), Written::All);
    assert_eq!(begin.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn publisher_that_reads_nothing_is_left_alone_until_its_stream_or_the_gateway_ends() {
    let stream = Stream::new();
    for number in 0..5 {
        assert_eq!(stream.take(1), number);
        stream.confirm(number);
        tokio::task::yield_now().await;
    }
    let mut writing = stream.writing;
    let hour = Duration::from_secs(3600);
    assert!(timeout(hour, &mut writing).await.is_err());
    let begin = Instant::now();
    Stream::ends_by(&stream.ended, Duration::from_secs(1));
    assert_eq!(writing.await.unwrap(), Written::Stuck);
    assert_eq!(begin.elapsed(), Duration::from_secs(1) + READ_WITHIN);

    let stream = Stream::new();
    for number in 0..5 {
        stream.take(1);
        stream.confirm(number);
        tokio::task::yield_now().await;
    }
    let begin = Instant::now();
    Stream::ends_by(&stream.drain, Duration::from_secs(1));
    assert_eq!(stream.writing.await.unwrap(), Written::Stuck);
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "a stop does not wait"
    );
}

#[tokio::test(start_paused = true)]
async fn writer_notices_that_nobody_is_there() {
    let stream = Stream::new();
    stream.take(1);
    drop(stream.messages);
    assert_eq!(stream.writing.await.unwrap(), Written::Gone);
}
