//! [`PublisherBuilder`]: how to publish, checked before anything is sent.

use std::time::Duration;

use ackgate_proto::v1;
use tonic::{
    body::Body,
    codegen::{Body as HttpBody, Bytes, Service, StdError, http},
};

use super::{Publisher, ledger::Amount};
use crate::{
    Addresses, Error,
    dial::{Dialer, Injected, boxed},
    options::{check, dialer, endpoint, wire_duration},
    tls::Tls,
    token::Secret,
    tries::Retry,
};

const GIB: u64 = 1 << 30;

/// Times that the protocol allows for a record.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(300);

/// Longest time that records may wait for others.
const MAX_LINGER: Duration = Duration::from_secs(60);

/// Which brokers must have a record before it counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acks {
    /// As the gateway's configuration has it: all, unless it says otherwise.
    #[default]
    Configured,
    /// All in-sync replicas of its partition.
    All,
    /// The partition's leader alone: lost with it, if it dies before a replica has it.
    Leader,
    /// None: [`Written`](crate::Written) says that the record was sent, and has no offset.
    None,
}

/// Options of a [`Publisher`]; made by [`Publisher::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct PublisherBuilder {
    addresses: Addresses,
    channel: Option<Injected>,
    tls: Option<Tls>,
    token: Option<Secret>,
    cluster: String,
    acks: Acks,
    idempotence: Option<bool>,
    timeout: Option<Duration>,
    in_flight: Amount,
    linger: Duration,
    retry_unanswered: bool,
    windows: (u32, u32),
    keepalive: (Duration, Duration),
    retry: Retry,
    open_timeout: Duration,
}

impl PublisherBuilder {
    pub(super) fn new(addresses: Addresses) -> Self {
        Self {
            addresses,
            channel: None,
            tls: None,
            token: None,
            cluster: String::new(),
            acks: Acks::Configured,
            idempotence: None,
            timeout: None,
            in_flight: Amount {
                records: 10_000,
                bytes: 32 << 20,
            },
            linger: Duration::ZERO,
            retry_unanswered: false,
            windows: (4 << 20, 8 << 20),
            keepalive: (Duration::from_secs(20), Duration::from_secs(10)),
            retry: Retry::default(),
            open_timeout: Duration::from_secs(10),
        }
    }

    /// Connects over TLS, also if the address begins with `http`. Without it only an address
    /// that begins with `https` does, and trusts whom the system trusts.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets the token by which the gateway knows who calls: visible ASCII characters. Over a
    /// connection without TLS, whoever listens on the way can use it too.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Secret(token.into()));
        self
    }

    /// Names the cluster in the gateway's configuration. Without it: the one that takes
    /// records, if there is only one.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets which brokers must have a record before it counts as written.
    pub const fn acks(mut self, acks: Acks) -> Self {
        self.acks = acks;
        self
    }

    /// Sets whether the gateway's own retries can never write a record twice, which needs
    /// acks of all. Without it, they cannot with acks of all, and can with others. A record
    /// that is sent twice, as with [`retry_unanswered`](Self::retry_unanswered), is two
    /// records all the same.
    pub const fn idempotence(mut self, idempotence: bool) -> Self {
        self.idempotence = Some(idempotence);
        self
    }

    /// Sets the time for each record from when the gateway takes it to Kafka's answer,
    /// 100 ms to 5 min; default 30 s. The time until the gateway takes it, as while there is
    /// no connection, is not in it.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the most that may be sent and not answered at any time: 1 to 1,000,000 records
    /// (default 10,000) and 1 byte to 1 GiB of keys, values and headers (default 32 MiB).
    /// The gateway's own limits hold too. Beyond either, [`Publisher::send`] waits. This is
    /// also the bound of the publisher's memory, but for what messages add to records; one
    /// record that is larger goes alone.
    pub const fn max_in_flight(mut self, records: u32, bytes: u64) -> Self {
        self.in_flight = Amount {
            records: records as u64,
            bytes,
        };
        self
    }

    /// Sets how long a record may wait for others to share a message with, up to 60 s; by
    /// default none waits. Records gather by themselves while earlier ones are on their
    /// way, so this helps only a slow trickle over an expensive network.
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Sets what becomes of records whose answer was lost with their stream. By default they
    /// are answered as [`NotWrittenKind::Unknown`](crate::NotWrittenKind::Unknown). With
    /// `true` the next stream sends them again, before all others: every record is then
    /// written **at least once, maybe twice**. Records that no stream was given yet always
    /// go to the next one.
    pub const fn retry_unanswered(mut self, retry: bool) -> Self {
        self.retry_unanswered = retry;
        self
    }

    /// Sets the HTTP/2 windows in bytes: of the stream (default 4 MiB) and of the
    /// connection (default 8 MiB).
    pub const fn windows(mut self, stream: u32, connection: u32) -> Self {
        self.windows = (stream, connection);
        self
    }

    /// Sets how often the connection is probed while it is quiet (default 20 s) and
    /// how long an answer may take (default 10 s).
    pub const fn keepalive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keepalive = (interval, timeout);
        self
    }

    /// Sets the longest delay before the first reconnect (default 250 ms) and before any
    /// (default 30 s): the bound doubles each time, and the delay is anything up to it, but
    /// not less than what the gateway asks for (at most 60 s).
    pub const fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        (self.retry.initial, self.retry.max) = (initial, max);
        self
    }

    /// Gives up after this many retries in a row; without it, never: records wait until a
    /// gateway comes, or until [`Publisher::close`].
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.retry.limit = Some(retries);
        self
    }

    /// Sets how long connecting, and then opening the stream, may each take; default 10 s.
    pub const fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    /// Goes through `channel` instead of connections of its own; see
    /// [`Builder::channel`](crate::Builder::channel).
    pub fn channel<S, B>(mut self, channel: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<StdError>,
        S::Future: Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        self.channel = Some(Injected(boxed(channel)));
        self
    }

    /// Connects and waits until the gateway has opened the stream, retrying with backoff
    /// as later reconnects do.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, what the gateway answers if
    /// trying again would not help, and [`Error::GaveUp`] after
    /// [`max_retries`](Self::max_retries).
    pub async fn connect(self) -> Result<Publisher, Error> {
        let dialer = self.checked()?;
        Publisher::start(self, dialer).await
    }

    fn checked(&self) -> Result<Dialer, Error> {
        check(
            self.timeout.is_none_or(|it| TIMEOUTS.contains(&it)),
            "timeout",
            "100 ms to 5 min",
        )?;
        check(
            (1..=1_000_000).contains(&self.in_flight.records)
                && (1..=GIB).contains(&self.in_flight.bytes),
            "max_in_flight",
            "1 to 1,000,000 records and 1 byte to 1 GiB",
        )?;
        check(self.linger <= MAX_LINGER, "linger", "at most 60 s")?;
        let other_acks = matches!(self.acks, Acks::Leader | Acks::None);
        check(
            !(self.idempotence == Some(true) && other_acks),
            "idempotence",
            "needs acks of all",
        )?;
        check(
            !self.retry.initial.is_zero() && self.retry.initial <= self.retry.max,
            "backoff",
            "the first delay must be above 0 and not above the longest",
        )?;
        let (timeout, tls) = (self.open_timeout, self.tls.as_ref());
        let token = self.token.as_ref();
        dialer(
            &self.addresses,
            self.channel.clone(),
            token,
            timeout,
            |it| endpoint(it, timeout, self.windows, self.keepalive, tls),
        )
    }

    pub(super) fn open(&self) -> v1::PublishOptions {
        let acks = match self.acks {
            Acks::Configured => v1::Acks::Unspecified,
            Acks::All => v1::Acks::All,
            Acks::Leader => v1::Acks::Leader,
            Acks::None => v1::Acks::None,
        };
        v1::PublishOptions {
            cluster: self.cluster.clone(),
            acks: acks.into(),
            idempotence: self.idempotence,
            timeout: self.timeout.map(wire_duration),
        }
    }

    pub(super) const fn in_flight(&self) -> Amount {
        self.in_flight
    }

    pub(super) const fn linger_time(&self) -> Duration {
        self.linger
    }

    pub(super) const fn sends_again(&self) -> bool {
        self.retry_unanswered
    }

    pub(super) const fn retry(&self) -> Retry {
        self.retry
    }

    pub(super) const fn open_time(&self) -> Duration {
        self.open_timeout
    }

    /// The time for a record, if the gateway does not say.
    pub(super) fn record_time(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(30))
    }
}
