//! [`Event`]: what happens to a subscriber's streams, for programs that show or count it.

use std::{fmt, sync::Arc, time::Duration};

use ackgate_proto::v1;

use crate::{Error, Problem};

/// Something that happened, told to the observer of
/// [`Builder::observe`](crate::Builder::observe).
///
/// None of it needs an answer: the subscriber goes on by itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A stream is open.
    #[non_exhaustive]
    Opened {
        /// Which gateway, as it was named to the builder.
        gateway: &'a str,
        /// The stream's name in the gateway's logs.
        session: &'a str,
        /// The subscriber's name.
        subscriber_id: &'a str,
        /// How many runs of records in hand the gateway kept over a lost stream.
        resumed: usize,
    },
    /// The gateway asks to leave: what is in hand is answered, and the next stream opened.
    #[non_exhaustive]
    Drain {
        /// Which gateway.
        gateway: &'a str,
        /// Why.
        reason: DrainReason,
        /// When the gateway ends the stream, from now; `None` if it does not say.
        deadline: Option<Duration>,
    },
    /// There is no stream, and another try follows.
    #[non_exhaustive]
    Disconnected {
        /// Which gateway.
        gateway: &'a str,
        /// Why.
        error: &'a Error,
        /// When the next try follows.
        retry_in: Duration,
    },
    /// A verdict or an extension changed nothing.
    Problem(&'a Problem),
    /// A [`Worker`](crate::Worker) gave a verdict.
    #[non_exhaustive]
    Answered {
        /// The record's topic.
        topic: &'a str,
        /// The record's partition.
        partition: i32,
        /// The record's position in it.
        offset: i64,
        /// Which attempt it was.
        attempt: u32,
        /// What it was answered.
        verdict: Verdict,
    },
}

/// Why a gateway asks a stream to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DrainReason {
    /// It does not say.
    #[default]
    Unspecified,
    /// The gateway stops.
    GatewayStops,
    /// The connection has lasted as long as one may.
    ConnectionAge,
}

/// What was said about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Done.
    Acked,
    /// Never.
    Rejected,
    /// Not this time.
    Failed,
    /// Not started.
    Released,
}

/// Who is told of events.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(&Event<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observer))
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        (self.0)(event);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl DrainReason {
    /// As the gateway says it.
    pub(crate) fn of(drain: &v1::Drain) -> Self {
        match drain.reason() {
            v1::DrainReason::Unspecified => Self::Unspecified,
            v1::DrainReason::GatewayStops => Self::GatewayStops,
            v1::DrainReason::ConnectionAge => Self::ConnectionAge,
        }
    }
}

impl fmt::Display for DrainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "",
            Self::GatewayStops => "GATEWAY_STOPS",
            Self::ConnectionAge => "CONNECTION_AGE",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acked => "acked",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Released => "released",
        })
    }
}
