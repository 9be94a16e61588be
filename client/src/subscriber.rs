//! [`Subscriber`]: the stream of deliveries.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll, ready},
    time::Duration,
};

use ackgate_proto::v1;
use futures::{Stream, future};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time,
};
use tonic::transport::Endpoint;

use crate::{
    Batch, Builder, Confirm, Delivery, Error, Order, Problem, Stats, options::Source, reconnect,
    session::Context, settler::Settler, stats::Counters, token::Token,
};

/// Time that the reader has beyond the close timeout to come to an end.
const CLOSE_SLACK: Duration = Duration::from_secs(2);

/// Receives records of one subscription and answers them.
///
/// Take deliveries from it one by one as a [`Stream`], or in batches with
/// [`next_batch`](Self::next_batch). It connects again by itself when the
/// connection or the gateway is lost; the stream ends with an error only when
/// trying again would not help.
///
/// It reads ahead up to its credit in a task of its own. Dropping it says goodbye
/// in the background; [`close`](Self::close) also waits for the gateway.
#[derive(Debug)]
pub struct Subscriber {
    /// Until `close` has seen its end.
    driver: Option<JoinHandle<Result<(), Error>>>,
    queue: mpsc::Receiver<Result<Batch, Error>>,
    /// What is left of the batch that the stream is in.
    batch: Option<Batch>,
    closing: watch::Sender<bool>,
    counters: Arc<Counters>,
    current: Arc<Current>,
    close_timeout: Duration,
}

/// The session of the moment.
#[derive(Debug, Default)]
pub(crate) struct Current(Mutex<CurrentState>);

#[derive(Debug, Default)]
struct CurrentState {
    settler: Option<Arc<Settler>>,
    session: String,
    subscriber_id: String,
    /// With what to go on after this session; empty: it cannot be.
    token: String,
}

impl Subscriber {
    /// Begins to describe a subscriber of `subscription` at the gateway `address`,
    /// a URI such as `http://127.0.0.1:7654`.
    pub fn builder(address: impl Into<String>, subscription: impl Into<String>) -> Builder {
        Builder::new(address.into(), Source::Named(subscription.into()))
    }

    /// Begins to describe a subscriber of `topics` on the gateway's `cluster` with the
    /// consumer group `group`, where the gateway's configuration allows it. Subscribers
    /// with the same cluster, group and set of topics share them, whatever the order.
    pub fn ad_hoc(
        address: impl Into<String>,
        cluster: impl Into<String>,
        topics: impl IntoIterator<Item = impl Into<String>>,
        group: impl Into<String>,
    ) -> Builder {
        let source = Source::AdHoc {
            cluster: cluster.into(),
            topics: topics.into_iter().map(Into::into).collect(),
            group: group.into(),
        };
        Builder::new(address.into(), source)
    }

    /// Subscribes with default options; see [`Builder::connect`].
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub async fn connect(
        address: impl Into<String>,
        subscription: impl Into<String>,
    ) -> Result<Self, Error> {
        Self::builder(address, subscription).connect().await
    }

    pub(crate) async fn start(
        options: Builder,
        endpoint: Endpoint,
        token: Token,
    ) -> Result<Self, Error> {
        let counters = Arc::new(Counters::new(options.observer.clone()));
        let current = Arc::new(Current::default());
        let close_timeout = options.close_timeout;
        // A batch has one record at least, so within the credit this never fills.
        let capacity = usize::try_from(options.credit_records).unwrap_or(usize::MAX);
        let (to_queue, queue) = mpsc::channel(capacity);
        let (closing, wish) = watch::channel(false);
        let settler = Arc::new(Settler::new(
            Arc::clone(&counters),
            options.flush_interval,
            options.flush_records,
            options.confirm == Confirm::Durable,
        ));
        let context = Context {
            options,
            settler,
            endpoint,
            token,
            counters: Arc::clone(&counters),
            current: Arc::clone(&current),
            queue: to_queue,
            closing: wish,
        };
        let (tell, ready) = oneshot::channel();
        let driver = Some(tokio::spawn(reconnect::run(context, tell)));
        ready.await.map_err(|_| Error::Ended)??;
        Ok(Self {
            driver,
            queue,
            batch: None,
            closing,
            counters,
            current,
            close_timeout,
        })
    }

    /// Returns the next batch, or what is left of the one that the stream is in;
    /// `None` when the stream has ended.
    ///
    /// Cancel safe: a batch is taken only when it is returned.
    ///
    /// # Errors
    /// What ended the stream; the next call returns `None`.
    pub async fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        future::poll_fn(|cx| self.poll_batch(cx)).await.transpose()
    }

    /// Replaces the credit; zero in either number pauses. What is already out
    /// stays out. A later session begins with the builder's credit.
    pub fn set_credit(&self, records: u32, bytes: u64) {
        if let Some(settler) = &self.current.lock().settler {
            settler.credit(records, bytes);
        }
    }

    /// Returns the subscriber's name, given or made by the gateway.
    #[must_use]
    pub fn subscriber_id(&self) -> String {
        self.current.lock().subscriber_id.clone()
    }

    /// Returns the name of the latest session as the gateway's logs have it.
    #[must_use]
    pub fn session(&self) -> String {
        self.current.lock().session.clone()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Takes the problems reported since the last call, oldest first. At most 1,000
    /// are kept; what is pushed out is counted.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.counters.take_problems()
    }

    /// Sends the verdicts given so far, says goodbye and waits for the gateway to
    /// end the stream. Deliveries still in hand are released: answer them first.
    /// Afterwards the stream has ended; calling it again does no harm.
    ///
    /// Cancel safe: the goodbye goes on in the background.
    ///
    /// # Errors
    /// The stream was lost, or its end did not come within
    /// [`Builder::close_timeout`]: the last verdicts may not count, and the gateway
    /// then hands those records out again.
    pub async fn close(&mut self) -> Result<Stats, Error> {
        self.say_goodbye();
        if let Some(driver) = &mut self.driver {
            let timeout = self.close_timeout;
            let ended = time::timeout(timeout.saturating_add(CLOSE_SLACK), &mut *driver).await;
            if ended.is_err() {
                driver.abort();
            }
            self.driver = None;
            match ended {
                Ok(Ok(result)) => result?,
                Ok(Err(_)) => return Err(Error::Ended),
                Err(_) => return Err(Error::NotClosed(timeout)),
            }
        }
        Ok(self.counters.snapshot())
    }

    /// Moves the deadlines of everything in hand. Returns how soon to do so again; `None`
    /// if the gateway has named no deadline.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        let settler = self.current.lock().settler.clone();
        settler?.extend_all()
    }

    /// How the subscription orders records, if the gateway said so.
    pub(crate) fn order(&self) -> Option<Order> {
        self.current.lock().settler.as_ref()?.given().order
    }

    fn say_goodbye(&mut self) {
        self.queue.close();
        if let Some(batch) = self.batch.take() {
            batch.discard();
        }
        while let Ok(item) = self.queue.try_recv() {
            if let Ok(batch) = item {
                batch.discard();
            }
        }
        self.closing.send_replace(true);
    }

    fn poll_batch(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Batch, Error>>> {
        loop {
            let mut batch = match self.batch.take() {
                Some(batch) => batch,
                None => match ready!(self.queue.poll_recv(cx)) {
                    Some(Ok(batch)) => batch,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(None),
                },
            };
            // What a broken session brought counts only if the next one keeps it.
            match batch.settler().poll_session(cx) {
                Poll::Ready(session) => batch.keep(session),
                Poll::Pending => {
                    self.batch = Some(batch);
                    return Poll::Pending;
                }
            }
            if !batch.is_empty() {
                return Poll::Ready(Some(Ok(batch.into_hand())));
            }
        }
    }
}

impl Stream for Subscriber {
    type Item = Result<Delivery, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        match ready!(self.poll_batch(cx)) {
            Some(Ok(mut batch)) => {
                let delivery = batch.next();
                self.batch = Some(batch);
                Poll::Ready(delivery.map(Ok))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.say_goodbye();
    }
}

impl Current {
    pub(crate) fn begin(&self, settler: &Arc<Settler>) {
        self.lock().settler = Some(Arc::clone(settler));
    }

    pub(crate) fn opened(&self, opened: &v1::Opened) {
        let mut state = self.lock();
        state.session.clone_from(&opened.session);
        state.subscriber_id.clone_from(&opened.subscriber_id);
        state.token.clone_from(&opened.resume_token);
    }

    /// The session of the moment is over for good: nothing goes on with it.
    pub(crate) fn forget(&self) {
        self.lock().token.clear();
    }

    /// Whether the session of the moment can be gone on with.
    pub(crate) fn is_resumable(&self) -> bool {
        !self.lock().token.is_empty()
    }

    /// Who goes on, and with which token: nobody, if there is nothing to go on with.
    pub(crate) fn resume(&self) -> Option<(String, String)> {
        let state = self.lock();
        (!state.token.is_empty()).then(|| (state.subscriber_id.clone(), state.token.clone()))
    }

    /// Whether there has been a session.
    pub(crate) fn has_begun(&self) -> bool {
        !self.lock().session.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, CurrentState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
