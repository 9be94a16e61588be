//! Options within their ranges become what calls the gateways.

use std::time::Duration;

use tonic::{
    codegen::http::uri::InvalidUri,
    transport::{Endpoint, Uri},
};

use super::{Builder, HOUR, Source};
use crate::{
    Addresses, Error,
    dial::{Dialer, Injected},
    tls::{self, Tls},
    token::{Secret, Token},
};

const GIB: u64 = 1 << 30;

/// Most addresses of gateways.
const MOST_ADDRESSES: usize = 64;

/// Largest HTTP/2 DATA frame accepted: fewer frames for a batch of 100 KiB or more.
const MAX_FRAME_BYTES: u32 = 256 * 1024;

impl Builder {
    /// What to connect to, if every option is within its range.
    pub(crate) fn checked(&self) -> Result<Dialer, Error> {
        self.source.check()?;
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
        let batches = self.batches.and_then(|it| it.problem());
        check(batches.is_none(), "batches", batches.unwrap_or_default())?;
        check(self.filter.len() <= 4_096, "filter", "at most 4,096 bytes")?;
        check(
            !self.retry.initial.is_zero() && self.retry.initial <= self.retry.max,
            "backoff",
            "the first delay must be above 0 and not above the longest",
        )?;
        check(self.flush_records > 0, "flush", "1 record or more")?;
        let windows = (self.stream_window, self.connection_window);
        let keepalive = (self.keepalive_interval, self.keepalive_timeout);
        dialer(
            &self.addresses,
            self.channel.clone(),
            self.token.as_ref(),
            self.open_timeout,
            |it| endpoint(it, self.open_timeout, windows, keepalive, self.tls.as_ref()),
        )
    }
}

/// What calls the gateways of `addresses`, each with an endpoint of its own.
pub(crate) fn dialer(
    addresses: &Addresses,
    channel: Option<Injected>,
    token: Option<&Secret>,
    timeout: Duration,
    endpoint: impl Fn(&str) -> Result<Endpoint, Error>,
) -> Result<Dialer, Error> {
    let named = addresses
        .iter()
        .map(|it| Ok((it.to_owned(), endpoint(it)?)));
    let endpoints = named.collect::<Result<Vec<_>, Error>>()?;
    check(
        (1..=MOST_ADDRESSES).contains(&endpoints.len()),
        "address",
        "1 to 64 addresses",
    )?;
    Ok(Dialer::new(endpoints, channel, Token::new(token)?, timeout))
}

/// What to connect to, with the windows of stream and connection in bytes, and how often
/// and how long to probe a quiet connection. TCP and TLS may each take `connect_timeout`.
pub(crate) fn endpoint(
    address: &str,
    connect_timeout: Duration,
    windows: (u32, u32),
    keepalive: (Duration, Duration),
    tls: Option<&Tls>,
) -> Result<Endpoint, Error> {
    let uri: Uri = address.parse().map_err(|error: InvalidUri| Error::Option {
        option: "address",
        problem: error.to_string(),
    })?;
    check(
        uri.host().is_some(),
        "address",
        "HOST:PORT, or a URI such as http://host:7654",
    )?;
    let endpoint = tls::over(&uri, tls, connect_timeout)?;
    Ok(endpoint
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(windows.0)
        .initial_connection_window_size(windows.1)
        .max_frame_size(MAX_FRAME_BYTES)
        .http2_keep_alive_interval(keepalive.0)
        .keep_alive_timeout(keepalive.1)
        .keep_alive_while_idle(true))
}

impl Source {
    fn check(&self) -> Result<(), Error> {
        let given: &[(&'static str, bool)] = match self {
            Self::Named(name) => &[("subscription", !name.is_empty())],
            Self::AdHoc {
                cluster,
                topics,
                group,
            } => &[
                ("cluster", !cluster.is_empty()),
                ("topics", !topics.is_empty()),
                ("group", !group.is_empty()),
            ],
        };
        given
            .iter()
            .try_for_each(|(option, is_given)| check(*is_given, option, "must not be empty"))
    }
}

pub(crate) fn check(holds: bool, option: &'static str, problem: &str) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::Option {
            option,
            problem: problem.to_owned(),
        })
    }
}
