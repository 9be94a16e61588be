//! Options within their ranges become what calls the gateways.

use std::time::Duration;

use tonic::{
    codegen::http::uri::InvalidUri,
    transport::{Endpoint, Uri},
};

use super::{Builder, HOUR, Source};
use crate::{
    Addresses, Error,
    addresses::DEFAULT_PORT,
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
    let endpoint = tls::over(&uri(address)?, tls, connect_timeout)?;
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

/// An address as a URI that names its port.
fn uri(address: &str) -> Result<Uri, Error> {
    let wrong = |why: String| Error::Option {
        option: "address",
        problem: format!(
            "{address:?} must be HOST[:PORT], or a URI such as http://host:7654, with an IPv6 \
             address in brackets{why}"
        ),
    };
    let uri: Uri = address
        .parse()
        .map_err(|error: InvalidUri| wrong(format!(": {error}")))?;
    let is_scheme = uri
        .scheme_str()
        .is_none_or(|it| it == "http" || it == "https");
    let Some(authority) = uri.authority().filter(|_| is_scheme) else {
        return Err(wrong(String::new()));
    };
    if uri.port().is_some() {
        // One that is none would be taken for the default.
        let is_port = uri.port_u16().is_some_and(|port| port > 0);
        return if is_port {
            Ok(uri)
        } else {
            Err(wrong(": no such port".to_owned()))
        };
    }
    // `host:` names none either.
    let host = authority.as_str().trim_end_matches(':');
    let named = format!("{host}:{DEFAULT_PORT}");
    let mut parts = uri.clone().into_parts();
    parts.authority = Some(named.parse().map_err(|_| wrong(String::new()))?);
    Uri::from_parts(parts).map_err(|_| wrong(String::new()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_7654_where_none_is_named() {
        for (address, authority, host) in [
            ("localhost", "localhost:7654", "localhost"),
            ("localhost:", "localhost:7654", "localhost"),
            ("localhost:1", "localhost:1", "localhost"),
            (
                "gateways.internal",
                "gateways.internal:7654",
                "gateways.internal",
            ),
            ("10.0.0.1", "10.0.0.1:7654", "10.0.0.1"),
            ("[::1]", "[::1]:7654", "[::1]"),
            ("[::1]:1", "[::1]:1", "[::1]"),
            ("http://localhost", "localhost:7654", "localhost"),
            ("http://localhost/", "localhost:7654", "localhost"),
            (
                "https://gateway.internal",
                "gateway.internal:7654",
                "gateway.internal",
            ),
            ("https://[::1]", "[::1]:7654", "[::1]"),
            (
                "https://gateway.internal:443",
                "gateway.internal:443",
                "gateway.internal",
            ),
        ] {
            let uri = uri(address).unwrap_or_else(|error| panic!("{address}: {error}"));
            assert_eq!(uri.authority().unwrap().as_str(), authority, "{address}");
            assert_eq!(uri.host(), Some(host), "{address}");
            let has_scheme = address.contains("://");
            assert_eq!(uri.scheme_str().is_some(), has_scheme, "{address}");
        }
    }

    #[test]
    fn address_that_is_none_is_told_as_it_was_given() {
        for address in [
            "",
            "::1",
            "a b",
            "/orders",
            "kafka://a:1",
            "a:99999",
            "a:0",
            "http://",
        ] {
            let error = uri(address).expect_err(address).to_string();
            assert!(error.starts_with("option address: "), "{error}");
            assert!(error.contains(&format!("{address:?}")), "{error}");
        }
    }
}
