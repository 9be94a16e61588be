//! [`Builder`]: how to subscribe, checked before anything is sent.

use std::time::Duration;

use ackgate_proto::v1;
use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tonic::transport::Endpoint;

use crate::{Error, Subscriber};

const GIB: u64 = 1 << 30;
const HOUR: Duration = Duration::from_hours(1);

/// Largest HTTP/2 DATA frame accepted: fewer frames for a batch of 100 KiB or more.
const MAX_FRAME_BYTES: u32 = 256 * 1024;

/// Which answers to verdicts the gateway sends beside the problems, which it
/// always reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// Problems only.
    #[default]
    Problems,
    /// Also a confirmation of every verdict message that was applied.
    Applied,
}

/// Options of a [`Subscriber`]; made by [`Subscriber::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder {
    pub(crate) address: String,
    pub(crate) subscription: String,
    pub(crate) subscriber_id: String,
    pub(crate) credit_records: u32,
    pub(crate) credit_bytes: u64,
    pub(crate) max_message_bytes: u64,
    pub(crate) ack_deadline: Option<Duration>,
    pub(crate) confirm: Confirm,
    pub(crate) filter: String,
    pub(crate) resumable: bool,
    pub(crate) takeover: bool,
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) keepalive_interval: Duration,
    pub(crate) keepalive_timeout: Duration,
    pub(crate) backoff_initial: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) max_retries: Option<u32>,
    pub(crate) flush_interval: Duration,
    pub(crate) flush_records: u64,
    pub(crate) open_timeout: Duration,
    pub(crate) close_timeout: Duration,
}

impl Builder {
    pub(crate) fn new(address: String, subscription: String) -> Self {
        Self {
            address,
            subscription,
            subscriber_id: String::new(),
            credit_records: 8_192,
            credit_bytes: 32 << 20,
            max_message_bytes: 16 << 20,
            ack_deadline: None,
            confirm: Confirm::Problems,
            filter: String::new(),
            resumable: true,
            takeover: false,
            stream_window: 4 << 20,
            connection_window: 8 << 20,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            backoff_initial: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            max_retries: None,
            flush_interval: Duration::from_millis(5),
            flush_records: 1_024,
            open_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(5),
        }
    }

    /// Sets the subscriber's own name, which appears in dead letters and logs: at
    /// most 256 bytes without control characters. Without it the gateway makes one.
    pub fn subscriber_id(mut self, id: impl Into<String>) -> Self {
        self.subscriber_id = id.into();
        self
    }

    /// Sets the most that may be out to this subscriber at any time, received or
    /// not, without verdict: 1 to 1,000,000 records (default 8,192) and 1 byte to
    /// 1 GiB (default 32 MiB). This is also the bound of the subscriber's memory.
    pub fn credit(mut self, records: u32, bytes: u64) -> Self {
        (self.credit_records, self.credit_bytes) = (records, bytes);
        self
    }

    /// Sets the largest message accepted: 4,096 bytes to 1 GiB, default 16 MiB. A
    /// record that does not fit takes the subscription's route for oversize records.
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

    /// Sets which records are expected: an expression of at most 4096 bytes, as the
    /// protocol describes it at `Open.filter`. Unless it is the subscription's own the
    /// gateway refuses the stream. Without it, whatever the subscription has.
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

    /// Sets the delay before the first reconnect (default 100 ms) and its limit
    /// (default 10 s): it doubles each time, and up to as much again is added at random.
    pub fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        (self.backoff_initial, self.backoff_max) = (initial, max);
        self
    }

    /// Gives up after this many retries in a row; without it, never.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
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

    /// Connects and waits until the gateway has opened the stream, retrying with
    /// backoff as later reconnects do.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range, what the gateway answers
    /// if trying again would not help, and [`Error::GaveUp`] after
    /// [`max_retries`](Self::max_retries).
    pub async fn connect(self) -> Result<Subscriber, Error> {
        let endpoint = self.checked()?;
        Subscriber::start(self, endpoint).await
    }

    fn checked(&self) -> Result<Endpoint, Error> {
        let check = |holds: bool, option, problem: &str| {
            if holds {
                Ok(())
            } else {
                Err(Error::Option {
                    option,
                    problem: problem.to_owned(),
                })
            }
        };
        check(
            !self.subscription.is_empty(),
            "subscription",
            "must not be empty",
        )?;
        check(
            self.subscriber_id.len() <= 256 && !self.subscriber_id.chars().any(char::is_control),
            "subscriber_id",
            "at most 256 bytes without control characters",
        )?;
        check(
            (1..=1_000_000).contains(&self.credit_records)
                && (1..=GIB).contains(&self.credit_bytes),
            "credit",
            "1 to 1,000,000 records and 1 byte to 1 GiB",
        )?;
        check(
            (4_096..=GIB).contains(&self.max_message_bytes),
            "max_message_bytes",
            "4,096 bytes to 1 GiB",
        )?;
        check(
            self.ack_deadline
                .is_none_or(|it| (Duration::from_millis(100)..=HOUR).contains(&it)),
            "ack_deadline",
            "100 ms to 1 h",
        )?;
        check(self.filter.len() <= 4_096, "filter", "at most 4,096 bytes")?;
        check(
            !self.backoff_initial.is_zero() && self.backoff_initial <= self.backoff_max,
            "backoff",
            "the first delay must be above 0 and not above the longest",
        )?;
        check(self.flush_records > 0, "flush", "1 record or more")?;
        let endpoint =
            Endpoint::from_shared(self.address.clone()).map_err(|error| Error::Option {
                option: "address",
                problem: error.to_string(),
            })?;
        check(
            endpoint.uri().host().is_some(),
            "address",
            "a URI such as http://host:7654",
        )?;
        Ok(endpoint
            .connect_timeout(self.open_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window)
            .max_frame_size(MAX_FRAME_BYTES)
            .http2_keep_alive_interval(self.keepalive_interval)
            .keep_alive_timeout(self.keepalive_timeout)
            .keep_alive_while_idle(true))
    }

    pub(crate) fn open(&self) -> v1::Open {
        v1::Open {
            subscription: self.subscription.clone(),
            subscriber_id: self.subscriber_id.clone(),
            credit: Some(v1::Credit {
                records: self.credit_records,
                bytes: self.credit_bytes,
            }),
            max_message_bytes: self.max_message_bytes,
            confirm: match self.confirm {
                Confirm::Problems => v1::Confirm::Unspecified,
                Confirm::Applied => v1::Confirm::Applied,
            }
            .into(),
            ack_deadline: self.ack_deadline.map(wire_duration),
            filter: self.filter.clone(),
            resumable: self.resumable,
            ..v1::Open::default()
        }
    }

    pub(crate) fn delays(&self) -> ExponentialBackoff {
        ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(self.backoff_initial)
            .with_max_delay(self.backoff_max)
            .without_max_times()
            .build()
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
