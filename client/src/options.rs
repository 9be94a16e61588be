//! [`Builder`]: how to subscribe, checked before anything is sent.

use std::time::Duration;

use ackgate_proto::v1;

mod checks;

use tonic::{
    body::Body,
    codegen::{Body as HttpBody, Bytes, Service, StdError, http},
};

use crate::{
    Addresses, Error, Subscriber,
    dial::{Injected, boxed},
    event::{Event, Observer},
    shape::{Batches, SubscriptionOptions},
    tls::Tls,
    token::Secret,
    tries::Retry,
};

pub(crate) use checks::{check, dialer, endpoint};

const HOUR: Duration = Duration::from_hours(1);

/// Which answers to verdicts the gateway sends beside the problems, which it
/// always reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// Problems only.
    #[default]
    Problems,
    /// Also a confirmation of every verdict message that was applied.
    Applied,
    /// Also a confirmation of every verdict message, once what it did survives the loss
    /// of the gateway: for [`Delivery::ack_durably`](crate::Delivery::ack_durably). Each
    /// message makes the gateway commit, so give many verdicts before one is awaited.
    Durable,
}

/// What is read.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A subscription of the gateway's configuration.
    Named(String),
    /// One that the configuration does not name.
    AdHoc {
        cluster: String,
        topics: Vec<String>,
        group: String,
    },
}

impl Source {
    /// For the log.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::AdHoc { group, .. } => group,
        }
    }
}

/// Options of a [`Subscriber`]; made by [`Subscriber::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder {
    pub(crate) addresses: Addresses,
    pub(crate) channel: Option<Injected>,
    pub(crate) tls: Option<Tls>,
    pub(crate) token: Option<Secret>,
    pub(crate) source: Source,
    pub(crate) subscriber_id: String,
    pub(crate) credit_records: u32,
    pub(crate) credit_bytes: u64,
    pub(crate) max_message_bytes: u64,
    pub(crate) ack_deadline: Option<Duration>,
    pub(crate) confirm: Confirm,
    pub(crate) options: Option<SubscriptionOptions>,
    pub(crate) batches: Option<Batches>,
    pub(crate) until_drained: bool,
    pub(crate) filter: String,
    pub(crate) resumable: bool,
    pub(crate) takeover: bool,
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) keepalive_interval: Duration,
    pub(crate) keepalive_timeout: Duration,
    pub(crate) retry: Retry,
    pub(crate) flush_interval: Duration,
    pub(crate) flush_records: u64,
    pub(crate) open_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) observer: Option<Observer>,
}

impl Builder {
    pub(crate) fn new(addresses: Addresses, source: Source) -> Self {
        Self {
            addresses,
            channel: None,
            tls: None,
            token: None,
            source,
            subscriber_id: String::new(),
            credit_records: 8_192,
            credit_bytes: 32 << 20,
            max_message_bytes: 16 << 20,
            ack_deadline: None,
            confirm: Confirm::Problems,
            options: None,
            batches: None,
            until_drained: false,
            filter: String::new(),
            resumable: true,
            takeover: false,
            stream_window: 4 << 20,
            connection_window: 8 << 20,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            retry: Retry::default(),
            flush_interval: Duration::from_millis(5),
            flush_records: 1_024,
            open_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(5),
            observer: None,
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

    /// Sets the subscriber's own name, which appears in dead letters and logs: at
    /// most 256 bytes without control characters. Without it the gateway makes one.
    ///
    /// A name is one stream's at a time in a subscription *of one gateway*: a subscriber of
    /// several gateways has the same name at each, and another process must have another.
    pub fn subscriber_id(mut self, id: impl Into<String>) -> Self {
        self.subscriber_id = id.into();
        self
    }

    /// Sets the most that may be out to this subscriber at any time, received or
    /// not, without verdict: 1 to 1,000,000 records (default 8,192) and 1 byte to
    /// 1 GiB (default 32 MiB). This is also the bound of the subscriber's memory.
    ///
    /// Over several gateways it is split evenly, with at least 1 record and 1 byte for each;
    /// so it is exceeded only by more gateways than records, and for a moment when one comes
    /// that gets its share before the others have answered what they had of it.
    pub fn credit(mut self, records: u32, bytes: u64) -> Self {
        (self.credit_records, self.credit_bytes) = (records, bytes);
        self
    }

    /// Sets the largest message accepted: 4,096 bytes to 1 GiB, default 16 MiB. A
    /// record that does not fit goes to another subscriber, or takes the route of
    /// rejected records if it is for this one alone or fits none.
    pub fn max_message_bytes(mut self, bytes: u64) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the time for a verdict on each delivery, 100 ms to 1 h; without it the
    /// subscription's own holds.
    pub fn ack_deadline(mut self, deadline: Duration) -> Self {
        self.ack_deadline = Some(deadline);
        self
    }

    /// Sets which answers the gateway sends.
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// Says what the subscriber asks of its subscription or relies on.
    pub fn options(mut self, options: SubscriptionOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Sets what batches wait for.
    pub fn batches(mut self, batches: Batches) -> Self {
        self.batches = Some(batches);
        self
    }

    /// Ends the stream once everything that the topics hold has been read and answered:
    /// when every lane of the gateway has been read to its end and nothing is ready,
    /// delayed or out for this subscriber. It then yields `None`, as after a close.
    ///
    /// Answer what is in hand: a delivery without a verdict keeps the stream open.
    pub fn until_drained(mut self) -> Self {
        self.until_drained = true;
        self
    }

    /// Sets which records are expected: an expression of at most 4096 bytes, as the
    /// protocol describes it at `Open.filter`. Where subscribers share the records the
    /// gateway refuses the stream unless it is the subscription's own; in a broadcast
    /// each may have one. Without it, whatever the subscription has.
    pub fn filter(mut self, expression: impl Into<String>) -> Self {
        self.filter = expression.into();
        self
    }

    /// Sets whether what is in hand outlives a broken stream (it does unless this says
    /// `false`): the gateway then keeps it for its `resume_grace`, 30 s by default,
    /// before anybody else gets it. Without it, a lost connection hands it out again at
    /// once, and verdicts on it no longer count.
    pub fn resumable(mut self, resumable: bool) -> Self {
        self.resumable = resumable;
        self
    }

    /// Takes the place of another stream with the same [`subscriber_id`](Self::subscriber_id)
    /// when it first connects; that one ends for good. Without it, the gateway refuses
    /// a second one, and this subscriber tries again until the other has gone.
    pub fn takeover(mut self, takeover: bool) -> Self {
        self.takeover = takeover;
        self
    }

    /// Sets the HTTP/2 windows in bytes: of the stream (default 4 MiB) and of the
    /// connection (default 8 MiB).
    pub fn windows(mut self, stream: u32, connection: u32) -> Self {
        (self.stream_window, self.connection_window) = (stream, connection);
        self
    }

    /// Sets how often the connection is probed while it is quiet (default 20 s) and
    /// how long an answer may take (default 10 s).
    pub fn keepalive(mut self, interval: Duration, timeout: Duration) -> Self {
        (self.keepalive_interval, self.keepalive_timeout) = (interval, timeout);
        self
    }

    /// Sets the longest delay before the first reconnect (default 250 ms) and before any
    /// (default 30 s): the bound doubles each time, and the delay is anything up to it, but
    /// not less than what the gateway asks for (at most 60 s).
    pub fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        (self.retry.initial, self.retry.max) = (initial, max);
        self
    }

    /// Gives up after this many retries in a row; without it, never.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.retry.limit = Some(retries);
        self
    }

    /// Sets how long verdicts are gathered into one message: until `interval` has
    /// passed (default 5 ms) or `records` are answered (default 1,024).
    pub fn flush(mut self, interval: Duration, records: u64) -> Self {
        (self.flush_interval, self.flush_records) = (interval, records);
        self
    }

    /// Sets how long connecting, and then opening the stream, may each take; default 10 s.
    pub fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = timeout;
        self
    }

    /// Sets how long [`Subscriber::close`] waits for the gateway; default 5 s.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Goes through `channel` instead of connections of its own: any gRPC service that can be
    /// cloned, such as a `tonic` channel under layers and interceptors, or one over a pipe in
    /// memory for a test. The first address is only a name then, and the origin of the URIs
    /// that calls name; timeouts, windows and keepalive are the channel's own.
    ///
    /// Each stream is a call on a clone of it, those after a loss too: `tonic`'s channels
    /// connect again by themselves.
    ///
    /// ```
    /// use ackgate_client::Subscriber;
    /// use tonic::{Request, Status, service::interceptor::InterceptedService};
    /// use tonic::transport::Endpoint;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let channel = Endpoint::from_static("http://gateway.internal:7654").connect_lazy();
    /// let traced = InterceptedService::new(channel, |mut request: Request<()>| {
    ///     let tenant = "blue".parse().map_err(|_| Status::internal("no tenant"))?;
    ///     request.metadata_mut().insert("x-tenant", tenant);
    ///     Ok::<_, Status>(request)
    /// });
    /// let orders = Subscriber::builder("http://gateway.internal:7654", "orders").channel(traced);
    /// # let _ = orders;
    /// # }
    /// ```
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

    /// Tells `observer` what happens to the streams, as it happens. It is called between
    /// messages, so it must be quick and never wait.
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer::new(observer));
        self
    }

    /// Connects and waits until the gateway has opened the stream, retrying with
    /// backoff as later reconnects do.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, what the gateway answers
    /// if trying again would not help, and [`Error::GaveUp`] after
    /// [`max_retries`](Self::max_retries).
    pub async fn connect(self) -> Result<Subscriber, Error> {
        let dialer = self.checked()?;
        Subscriber::start(self, dialer).await
    }

    /// `Open` with this much credit.
    pub(crate) fn open(&self, records: u32, bytes: u64) -> v1::Open {
        let options = self.options.as_ref().map(SubscriptionOptions::wire);
        let (subscription, ad_hoc, expect) = match &self.source {
            Source::Named(name) => (name.clone(), None, options),
            Source::AdHoc {
                cluster,
                topics,
                group,
            } => {
                let ad_hoc = v1::AdHoc {
                    cluster: cluster.clone(),
                    topics: topics.clone(),
                    group: group.clone(),
                    options,
                };
                (String::new(), Some(ad_hoc), None)
            }
        };
        v1::Open {
            subscription,
            subscriber_id: self.subscriber_id.clone(),
            credit: Some(v1::Credit { records, bytes }),
            max_message_bytes: self.max_message_bytes,
            confirm: match self.confirm {
                Confirm::Problems => v1::Confirm::Unspecified,
                Confirm::Applied => v1::Confirm::Applied,
                Confirm::Durable => v1::Confirm::Durable,
            }
            .into(),
            ack_deadline: self.ack_deadline.map(wire_duration),
            batch: self.batches.map(Batches::wire),
            until_drained: self.until_drained,
            ad_hoc,
            expect,
            filter: self.filter.clone(),
            resumable: self.resumable,
            ..v1::Open::default()
        }
    }
}

/// A duration as the protocol has it, at most an hour: no field takes more.
pub(crate) fn wire_duration(duration: Duration) -> prost_types::Duration {
    let capped = duration.min(HOUR);
    prost_types::Duration {
        seconds: i64::try_from(capped.as_secs()).unwrap_or(3_600),
        nanos: i32::try_from(capped.subsec_nanos()).unwrap_or_default(),
    }
}
