//! [`Puller`]: records without a stream, for programs that come, work and go.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1::{self, gateway_service_client::GatewayServiceClient};
use tokio::time::Instant;
use tonic::{Code, transport::Uri};

use crate::{
    Addresses, Builder, Error, Lease, LeaseVerdict, Problem, ProblemKind, Subscriber,
    dial::{Channel, Dialer},
    options::wire_duration,
    token::Token,
};

/// Verdicts in one message.
const MOST_VERDICTS: usize = 10_000;

/// What the gateway takes to see whether there is anything, and to make something durable.
const GATEWAY_TIME: Duration = Duration::from_secs(35);

/// Time for a call on its way.
const SLACK: Duration = Duration::from_secs(5);

/// The gateway's reason where it does not know a session.
const UNKNOWN_SESSION: &str = "PULL_SESSION_UNKNOWN";
const SUPERSEDED: &str = "SUPERSEDED";

/// Its reason where a call waited on a connection that became too old.
const CONNECTION_AGED: &str = "CONNECTION_AGED";

/// How often one pull may meet a connection that is just being closed, and the pause then.
const CANCELLED_CALLS: u32 = 5;
const BETWEEN_CALLS: Duration = Duration::from_millis(50);

/// Takes records of one subscription by plain calls and answers them: no stream stays
/// open, and between calls nothing happens. Each record is leased for the ack deadline.
///
/// ```no_run
/// use std::time::Duration;
/// use ackgate_client::Puller;
///
/// # async fn store(order: Option<&[u8]>) -> std::io::Result<()> { Ok(()) }
/// # async fn example() -> Result<(), ackgate_client::Error> {
/// let mut orders = Puller::connect("http://127.0.0.1:7654", "orders")
///     .await?
///     .max_records(50)
///     .wait(Duration::from_secs(10));
/// loop {
///     let leases = orders.pull().await?;
///     if leases.is_empty() {
///         break;
///     }
///     let mut verdicts = Vec::new();
///     for lease in &leases {
///         verdicts.push(match store(lease.record().value()).await {
///             Ok(()) => lease.acked(),
///             Err(error) => lease.failed("store", error.to_string()),
///         });
///     }
///     orders.settle(verdicts).await?;
/// }
/// orders.close().await
/// # }
/// ```
///
/// **A record whose verdict is not settled in time comes again**, here or elsewhere, and so
/// does everything that is out when the puller is dropped, once its lease is over;
/// [`close`](Self::close) gives it back at once. It makes its calls over one connection, so
/// that they reach one gateway; it does not try again by itself what failed.
#[derive(Debug)]
pub struct Puller {
    client: GatewayServiceClient<Channel>,
    token: Token,
    asks: v1::PullRequest,
    wait: Duration,
    linger: Duration,
    subscriber_id: String,
    draining: bool,
}

impl Builder {
    /// Connects and makes a puller in place of a stream. What is for streams alone has no
    /// meaning for it: credit, batches, confirmations, `until_drained`, `resumable`, gathering
    /// of verdicts and reconnects.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, and [`Error::Unreachable`].
    pub async fn puller(self) -> Result<Puller, Error> {
        let dialer = self.checked()?;
        // One gateway: what it leases can be answered there only.
        let (channel, uri) = first(&dialer).await?;
        let limit = usize::try_from(self.max_message_bytes).unwrap_or(usize::MAX);
        let open = self.open(0, 0);
        Ok(Puller {
            client: GatewayServiceClient::with_origin(channel, uri)
                .max_decoding_message_size(limit),
            token: dialer.token().clone(),
            asks: v1::PullRequest {
                subscription: open.subscription,
                ad_hoc: open.ad_hoc,
                subscriber_id: open.subscriber_id,
                takeover: self.takeover,
                max_message_bytes: open.max_message_bytes,
                ack_deadline: open.ack_deadline,
                filter: open.filter,
                expect: open.expect,
                ..v1::PullRequest::default()
            },
            wait: Duration::ZERO,
            linger: Duration::ZERO,
            subscriber_id: String::new(),
            draining: false,
        })
    }
}

/// The first gateway that can be reached.
async fn first(dialer: &Dialer) -> Result<(Channel, Uri), Error> {
    let mut last = Error::Protocol("an address stands for nothing");
    for target in dialer.targets().await? {
        match dialer.dial(&target).await {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Puller {
    /// Connects to the first of `addresses` that answers, such as `127.0.0.1:7654`, to pull
    /// from `subscription`. For other options see [`Builder::puller`].
    ///
    /// # Errors
    /// As [`Builder::puller`].
    pub async fn connect(
        addresses: impl Into<Addresses>,
        subscription: impl Into<String>,
    ) -> Result<Self, Error> {
        Subscriber::builder(addresses, subscription).puller().await
    }

    /// Sets the most records of one call, 1 to 10,000; by default 100.
    #[must_use]
    pub const fn max_records(mut self, records: u32) -> Self {
        self.asks.max_records = records;
        self
    }

    /// Sets the most bytes of records of one call; by default 1 MiB. A first record that is
    /// larger comes alone.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.asks.max_bytes = bytes;
        self
    }

    /// Sets how long a call waits for a first record, up to 60 s. By default it says what is
    /// there now.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long a call waits for others once it has a record, up to 60 s; by default
    /// not at all.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Takes records: some of those that are there. None means that there were none, or that
    /// the gateway [stops](Self::is_draining). If the session of earlier calls has ended,
    /// another one begins, and what was out to it comes again. Where the connection becomes
    /// too old, the rest of the wait is over another one.
    ///
    /// Not cancel safe in one respect: what an answer brings that is on its way when the call
    /// is dropped comes again when its lease is over.
    ///
    /// # Errors
    /// What the gateway answers, also to options outside their range.
    pub async fn pull(&mut self) -> Result<Vec<Lease>, Error> {
        let begun = Instant::now();
        let mut cancelled = 0;
        let answer = loop {
            let had_session = !self.asks.session.is_empty();
            let left = self.wait.saturating_sub(begun.elapsed());
            match self.call(left).await {
                Err(error) if error.reason() == Some(UNKNOWN_SESSION) && had_session => {
                    self.asks.session.clear();
                }
                Err(error)
                    if error.reason() == Some(CONNECTION_AGED)
                        && begun.elapsed() < GATEWAY_TIME.max(self.wait) => {}
                // The connection was told to go while the call was on its way into it: it has
                // not left, and the next one finds another connection. A call that ran into its
                // deadline ends so too, and is not made again: that is after this time.
                Err(Error::Status { code, reason, .. })
                    if code == Code::Cancelled
                        && reason.is_empty()
                        && cancelled < CANCELLED_CALLS
                        && begun.elapsed() < GATEWAY_TIME.max(self.wait) =>
                {
                    cancelled += 1;
                    tokio::time::sleep(BETWEEN_CALLS).await;
                }
                answer => break answer?,
            }
        };
        self.asks.session = answer.session;
        self.subscriber_id = answer.subscriber_id;
        self.draining = answer.draining;
        Ok(answer.batches.into_iter().flat_map(Lease::all_of).collect())
    }

    async fn call(&mut self, wait: Duration) -> Result<v1::PullResponse, Error> {
        self.asks.wait = Some(wire_duration(wait));
        self.asks.linger = Some(wire_duration(self.linger));
        let mut request = self.token.on(self.asks.clone());
        request.set_timeout(GATEWAY_TIME.max(wait) + self.linger + SLACK);
        Ok(self.client.pull(request).await?.into_inner())
    }

    /// Gives verdicts, and returns those that changed nothing: of records that have come
    /// again meanwhile, or have a verdict.
    ///
    /// # Errors
    /// What the gateway answers; with reason `PULL_SESSION_UNKNOWN` the session has ended,
    /// and what was out comes again; with `SUPERSEDED` another took its place. With more than
    /// 10,000 verdicts the first ones may count.
    pub async fn settle(
        &mut self,
        verdicts: impl IntoIterator<Item = LeaseVerdict>,
    ) -> Result<Vec<Problem>, Error> {
        self.settle_as(v1::Confirm::Applied, verdicts).await
    }

    /// As [`settle`](Self::settle), and waits until what the verdicts did survives the loss
    /// of the gateway, 30 s at most.
    ///
    /// # Errors
    /// As [`settle`](Self::settle); with reason `COMMITS_STALLED` they have been applied
    /// and may be given again.
    pub async fn settle_durably(
        &mut self,
        verdicts: impl IntoIterator<Item = LeaseVerdict>,
    ) -> Result<Vec<Problem>, Error> {
        self.settle_as(v1::Confirm::Durable, verdicts).await
    }

    async fn settle_as(
        &mut self,
        confirm: v1::Confirm,
        verdicts: impl IntoIterator<Item = LeaseVerdict>,
    ) -> Result<Vec<Problem>, Error> {
        let mut names = Names::default();
        let mut wire: Vec<v1::Verdict> = Vec::new();
        for verdict in verdicts {
            names.add(verdict.lane());
            verdict.join(&mut wire);
        }
        let mut problems = Vec::new();
        for part in wire.chunks(MOST_VERDICTS) {
            let answer = self
                .tell(v1::SettleRequest {
                    verdicts: part.to_vec(),
                    confirm: confirm.into(),
                    ..v1::SettleRequest::default()
                })
                .await?;
            problems.extend(answer.answers.into_iter().map(|it| names.problem(it)));
        }
        Ok(problems)
    }

    async fn tell(&mut self, request: v1::SettleRequest) -> Result<v1::SettleResponse, Error> {
        let mut request = self.token.on(v1::SettleRequest {
            session: self.asks.session.clone(),
            ..request
        });
        request.set_timeout(2 * GATEWAY_TIME + SLACK);
        Ok(self.client.settle(request).await?.into_inner())
    }

    /// Says that work on these goes on: their leases end `by` from now, above 0 and at most
    /// 600 s, 1 h in total. Returns those of which nothing is out any more.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn extend<'a>(
        &mut self,
        leases: impl IntoIterator<Item = &'a Lease>,
        by: Duration,
    ) -> Result<Vec<Problem>, Error> {
        let mut names = Names::default();
        let mut wire = Vec::new();
        for lease in leases {
            names.add(lease.lane());
            wire.push(lease.extension());
        }
        let mut problems = Vec::new();
        for part in wire.chunks(MOST_VERDICTS) {
            let mut request = self.token.on(v1::ExtendRequest {
                session: self.asks.session.clone(),
                extensions: part.to_vec(),
                by: Some(wire_duration(by)),
            });
            request.set_timeout(GATEWAY_TIME + SLACK);
            let answer = self.client.extend(request).await?.into_inner();
            problems.extend(answer.answers.into_iter().map(|it| names.problem(it)));
        }
        Ok(problems)
    }

    /// Gives back what is out and ends the session; what was settled is committed at once.
    ///
    /// # Errors
    /// What the gateway answers. A session that has ended already is none.
    pub async fn close(mut self) -> Result<(), Error> {
        if self.asks.session.is_empty() {
            return Ok(());
        }
        let close = v1::SettleRequest {
            close: true,
            ..v1::SettleRequest::default()
        };
        match self.tell(close).await {
            Err(error) if matches!(error.reason(), Some(UNKNOWN_SESSION | SUPERSEDED)) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Returns the name that the gateway knows it by; empty before the first call.
    #[must_use]
    pub fn subscriber_id(&self) -> &str {
        &self.subscriber_id
    }

    /// Returns whether the gateway has said that it stops: answer what is out, and connect
    /// to another one.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.draining
    }
}

/// What the lanes of a message are called.
#[derive(Debug, Default)]
struct Names(Vec<(u64, Arc<str>, i32)>);

impl Names {
    fn add(&mut self, (lane, topic, partition): (u64, &Arc<str>, i32)) {
        if !self.0.iter().any(|(known, ..)| *known == lane) {
            self.0.push((lane, Arc::clone(topic), partition));
        }
    }

    fn problem(&self, answer: v1::VerdictAnswer) -> Problem {
        let named = self.0.iter().find(|(lane, ..)| *lane == answer.lane);
        Problem {
            topic: named.map_or_else(String::new, |(_, topic, _)| topic.to_string()),
            partition: named.map_or(-1, |(.., partition)| *partition),
            first_offset: answer.first_offset,
            last_offset: answer.last_offset,
            kind: ProblemKind::from(answer.result),
            detail: answer.detail,
        }
    }
}
