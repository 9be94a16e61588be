//! [`Subscriber`]: the stream of deliveries.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
    time::Duration,
};

use futures::{Stream, future};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time,
};

use crate::{
    Addresses, Batch, Builder, Delivery, Error, Order, Problem, Stats, dial::Dialer, hub,
    link::Shared, options::Source, roll::Roll, stats::Counters,
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
    /// What lost streams brought and nobody has taken: whether it still counts is not known
    /// yet. Within the credit, as all that is out.
    aside: VecDeque<Batch>,
    closing: watch::Sender<bool>,
    counters: Arc<Counters>,
    roll: Arc<Roll>,
    close_timeout: Duration,
}

impl Subscriber {
    /// Begins to describe a subscriber of `subscription` at the gateways of `addresses`:
    /// `HOST[:PORT]`, a URI such as `http://127.0.0.1:7654`, or several of either. Without a
    /// port it is 7654.
    ///
    /// A name that resolves to several addresses is several gateways. The subscriber has a
    /// stream to each gateway there is, and what they bring is one stream. Names are looked
    /// up again every 30 s and when a stream is lost: gateways that are new are attached to,
    /// and one that is gone is let go once its stream is lost.
    ///
    /// ```no_run
    /// # use ackgate_client::{Error, Subscriber};
    /// # async fn example() -> Result<(), Error> {
    /// let addresses = ["gateway-0.internal:7654", "gateway-1.internal:7654"];
    /// let orders = Subscriber::builder(addresses, "orders").connect().await?;
    /// // A name of a headless service, of as many gateways as it has.
    /// let payments = Subscriber::connect("http://gateways.internal:7654", "payments").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(addresses: impl Into<Addresses>, subscription: impl Into<String>) -> Builder {
        Builder::new(addresses.into(), Source::Named(subscription.into()))
    }

    /// Begins to describe a subscriber of `topics` on the gateway's `cluster` with the
    /// consumer group `group`, where the gateway's configuration allows it. Subscribers
    /// with the same cluster, group and set of topics share them, whatever the order.
    pub fn ad_hoc(
        addresses: impl Into<Addresses>,
        cluster: impl Into<String>,
        topics: impl IntoIterator<Item = impl Into<String>>,
        group: impl Into<String>,
    ) -> Builder {
        let source = Source::AdHoc {
            cluster: cluster.into(),
            topics: topics.into_iter().map(Into::into).collect(),
            group: group.into(),
        };
        Builder::new(addresses.into(), source)
    }

    /// Subscribes with default options; see [`Builder::connect`].
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub async fn connect(
        addresses: impl Into<Addresses>,
        subscription: impl Into<String>,
    ) -> Result<Self, Error> {
        Self::builder(addresses, subscription).connect().await
    }

    pub(crate) async fn start(options: Builder, dialer: Dialer) -> Result<Self, Error> {
        let counters = Arc::new(Counters::new(options.observer.clone()));
        let roll = Arc::new(Roll::new(options.credit_records, options.credit_bytes));
        let close_timeout = options.close_timeout;
        // A batch has one record at least, so within the credit this never fills.
        let capacity = usize::try_from(options.credit_records).unwrap_or(usize::MAX);
        let (to_queue, queue) = mpsc::channel(capacity);
        let (closing, wish) = watch::channel(false);
        let shared = Shared {
            options,
            dialer,
            counters: Arc::clone(&counters),
            roll: Arc::clone(&roll),
            queue: to_queue,
            closing: wish,
            lost: Notify::new(),
            opened: Notify::new(),
        };
        let (tell, ready) = oneshot::channel();
        let driver = Some(tokio::spawn(hub::run(shared, tell)));
        ready.await.map_err(|_| Error::Ended)??;
        Ok(Self {
            driver,
            queue,
            batch: None,
            aside: VecDeque::new(),
            closing,
            counters,
            roll,
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

    /// Replaces the credit, over all gateways as [`Builder::credit`] describes it; zero in
    /// either number pauses. What is already out stays out.
    pub fn set_credit(&self, records: u32, bytes: u64) {
        self.roll.grant(records, bytes);
    }

    /// Returns the subscriber's name, given or made by a gateway; the latest, if several
    /// gateways each made one.
    #[must_use]
    pub fn subscriber_id(&self) -> String {
        self.roll.subscriber_id()
    }

    /// Returns the name of the latest session as its gateway's logs have it.
    #[must_use]
    pub fn session(&self) -> String {
        self.roll.session()
    }

    /// Returns the gateways that have an open stream now, as the builder was given them and
    /// where their names were found.
    #[must_use]
    pub fn gateways(&self) -> Vec<String> {
        let legs = self.roll.legs();
        let open = legs.iter().filter(|leg| leg.settler.session() != 0);
        let live = open.filter(|leg| !leg.is_leaving());
        live.map(|leg| leg.gateway.clone()).collect()
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
    /// if no gateway has named a deadline.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        let legs = self.roll.legs();
        legs.iter().filter_map(|leg| leg.settler.extend_all()).min()
    }

    /// How the subscription orders records, if a gateway said so.
    pub(crate) fn order(&self) -> Option<Order> {
        let legs = self.roll.legs();
        legs.iter().find_map(|leg| leg.settler.given().order)
    }

    fn say_goodbye(&mut self) {
        self.queue.close();
        let taken = self.batch.take().into_iter();
        taken.chain(self.aside.drain(..)).for_each(Batch::discard);
        while let Ok(item) = self.queue.try_recv() {
            if let Ok(batch) = item {
                batch.discard();
            }
        }
        self.closing.send_replace(true);
    }

    fn poll_batch(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Batch, Error>>> {
        if let Some(batch) = self.batch.take()
            && let Some(batch) = self.known(batch, cx)
        {
            return Poll::Ready(Some(Ok(batch)));
        }
        for _ in 0..self.aside.len() {
            if let Some(batch) = self.aside.pop_front()
                && let Some(batch) = self.known(batch, cx)
            {
                return Poll::Ready(Some(Ok(batch)));
            }
        }
        loop {
            match ready!(self.queue.poll_recv(cx)) {
                Some(Ok(batch)) => {
                    if let Some(batch) = self.known(batch, cx) {
                        return Poll::Ready(Some(Ok(batch)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// What of a batch still counts, if anything. While a broken stream may be gone on with
    /// that is not known: others go before it.
    fn known(&mut self, mut batch: Batch, cx: &TaskContext<'_>) -> Option<Batch> {
        match batch.settler().poll_session(cx) {
            Poll::Ready(session) => batch.keep(session),
            Poll::Pending => {
                self.aside.push_back(batch);
                return None;
            }
        }
        (!batch.is_empty()).then(|| batch.into_hand())
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
