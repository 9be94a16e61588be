//! [`Error`]: why a subscriber could not start, or why its stream ended.

use std::{error::Error as StdError, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{plain::SpeaksTls, tls};

/// What a subscriber can be told instead of a delivery.
///
/// A [`Subscriber`](crate::Subscriber) gets over every error for which
/// [`is_retryable`](Self::is_retryable) holds by itself; it yields one only when
/// it gives up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is outside its range; nothing was sent.
    #[error("option {option}: {problem}")]
    Option {
        /// The builder's method.
        option: &'static str,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// No connection to the gateway.
    #[error("cannot reach {address}: {detail}")]
    Unreachable {
        /// Where the gateway should be.
        address: String,
        /// What the transport says.
        detail: String,
    },
    /// TLS did not come about, and would not if it were tried again: the gateway's
    /// certificate is of no trusted authority, for another name or out of its time, the
    /// gateway did not take this side's certificate or wanted one, or one of the two sides
    /// does not speak TLS.
    #[error("no TLS with the gateway: {detail}")]
    Tls {
        /// What was wrong, and where if that is known.
        detail: String,
    },
    /// The gateway ended the stream, or would not open it.
    #[error("the gateway answered {code:?}{}: {message}", bracketed(.reason))]
    Status {
        /// The gRPC code.
        code: Code,
        /// The gateway's stable reason code; empty if the error came from
        /// something in between.
        reason: String,
        /// In words, with the violated fields if there are any.
        message: String,
        /// The least time to wait before trying again, if the gateway gave one.
        retry_after: Option<Duration>,
    },
    /// The stream ended without a word, as when the gateway is killed.
    #[error("the gateway ended the stream")]
    Ended,
    /// Nothing came for twice the gateway's ping interval.
    #[error("no sign of life from the gateway for {0:?}")]
    Silent(Duration),
    /// The stream was not open in time.
    #[error("the gateway did not open the stream within {0:?}")]
    NotOpened(Duration),
    /// The gateway sent what the protocol does not allow.
    #[error("the gateway broke the protocol: {0}")]
    Protocol(&'static str),
    /// The goodbye was not answered in time: the last verdicts may not count.
    #[error("the gateway did not end the stream within {0:?} of the goodbye")]
    NotClosed(Duration),
    /// The allowed number of retries in a row is used up.
    #[error("gave up after {retries} retries: {last}")]
    GaveUp {
        /// Retries in a row without a session that was of use.
        retries: u32,
        /// What ended the last try.
        #[source]
        last: Box<Self>,
    },
}

/// The gateway's reason for ending a stream whose place another one took.
const SUPERSEDED: &str = "SUPERSEDED";

impl Error {
    /// Returns whether the same call can succeed later without anybody changing
    /// the subscriber's options or the gateway's configuration.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Option { .. } | Self::GaveUp { .. } | Self::Protocol(_) | Self::Tls { .. } => {
                false
            }
            Self::Unreachable { .. }
            | Self::Ended
            | Self::Silent(_)
            | Self::NotOpened(_)
            | Self::NotClosed(_) => true,
            // Another stream of this name took its place: the two would take turns.
            Self::Status { reason, .. } if reason.as_str() == SUPERSEDED => false,
            Self::Status { code, .. } => match code {
                // What a request asks for is wrong or not allowed, or a message is
                // larger than accepted: it would be so again.
                Code::InvalidArgument
                | Code::NotFound
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented => false,
                Code::Ok
                // An earlier session of the same name may not be gone yet.
                | Code::AlreadyExists
                | Code::Cancelled
                | Code::Unknown
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Aborted
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss => true,
            },
        }
    }

    /// Returns the gateway's stable reason code, if the gateway gave one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Status { reason, .. } if !reason.is_empty() => Some(reason),
            Self::GaveUp { last, .. } => last.reason(),
            Self::Status { .. }
            | Self::Option { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::Ended
            | Self::Silent(_)
            | Self::NotOpened(_)
            | Self::Protocol(_)
            | Self::NotClosed(_) => None,
        }
    }

    /// Returns the gRPC code of the gateway's answer, or of whatever answered in its place.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::GaveUp { last, .. } => last.code(),
            Self::Option { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::Ended
            | Self::Silent(_)
            | Self::NotOpened(_)
            | Self::Protocol(_)
            | Self::NotClosed(_) => None,
        }
    }

    /// Returns the least time to wait that the gateway asked for.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { retry_after, .. } = self {
            *retry_after
        } else {
            None
        }
    }

    /// Describes a failed connection.
    pub(crate) fn unreachable(address: &str, error: &(dyn StdError + 'static)) -> Self {
        if let Some(problem) = tls::problem(error) {
            let detail = format!("{address}: {problem}");
            return Self::Tls { detail };
        }
        Self::Unreachable {
            address: address.to_owned(),
            detail: chain(error),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        // A certificate that the gateway does not take breaks the connection after it is
        // made.
        if let Some(detail) = StdError::source(&status).and_then(tls::problem) {
            return Self::Tls { detail };
        }
        // Of a channel that was not ready for the call the status has nothing but words.
        if status.code() == Code::Unknown
            && let Some(detail) = SpeaksTls::told(status.message())
        {
            return Self::Tls { detail };
        }
        let details = status.get_error_details();
        let mut message = status.message().to_owned();
        if let Some(bad) = details.bad_request() {
            for violation in &bad.field_violations {
                let said = format!("{}: {}", violation.field, violation.description);
                // The gateway's own messages say it already.
                if !message.contains(&said) {
                    message.push_str("; ");
                    message.push_str(&said);
                }
            }
        }
        Self::Status {
            code: status.code(),
            reason: details
                .error_info()
                .map_or_else(String::new, |info| info.reason.clone()),
            message,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }
    }
}

/// The error and its causes in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

fn bracketed(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    }
}
