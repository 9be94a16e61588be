//! [`Receipt`]: what became of one record, once it is known.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ackgate_proto::v1;
use tokio::sync::oneshot;

/// What a receipt resolves to.
pub(super) type Outcome = Result<Written, NotWritten>;

/// Where a record was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Written {
    /// Its topic.
    pub topic: String,
    /// Its partition; -1 if the gateway does not say.
    pub partition: i32,
    /// Its offset; `None` with [`Acks::None`](crate::Acks::None), which does not wait for
    /// Kafka to give it one.
    pub offset: Option<i64>,
}

/// A record that was not written, or of which nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record for {topic} {kind}: {detail}")]
#[non_exhaustive]
pub struct NotWritten {
    /// Its topic; empty if the runtime that carried the publisher has ended.
    pub topic: String,
    /// The partition that it asked for, if any.
    pub partition: Option<i32>,
    /// Why.
    pub kind: NotWrittenKind,
    /// The same in words.
    pub detail: String,
}

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotWrittenKind {
    /// It is not one that can be written: a topic name that Kafka does not take, a negative
    /// partition, a timestamp before 1970, a header without a name. Do not send it again.
    Invalid,
    /// The gateway's configuration does not allow its topic, or Kafka denies it to the
    /// gateway.
    NotAllowed,
    /// Larger than the gateway, the broker or the topic takes.
    TooLarge,
    /// The topic or the partition does not exist.
    NotFound,
    /// No answer from Kafka within [`PublisherBuilder::timeout`](crate::PublisherBuilder::timeout):
    /// it may have been written, or may still be.
    TimedOut,
    /// Kafka could not take it this time, or the gateway stops: send it again.
    Unavailable,
    /// The broker refused it for another reason.
    Refused,
    /// The stream broke, or the publisher was closed, before the gateway's answer came: it
    /// may have been written, or may still be.
    Unknown,
    /// The publisher ended before the gateway was given the record: it was not written.
    NotSent,
    /// A reason that this version does not know.
    Other,
}

/// Resolves to what became of a record: where it was written, or why it was not.
///
/// Dropping it changes nothing for the record. Receipts of one publisher resolve about
/// in the order in which their records were sent.
#[derive(Debug)]
#[must_use = "whether the record was written is told here"]
pub struct Receipt(pub(super) oneshot::Receiver<Outcome>);

impl NotWritten {
    /// Returns whether the record may have been written all the same: sending it again
    /// may write it twice.
    #[must_use]
    pub const fn may_be_written(&self) -> bool {
        self.kind.may_be_written()
    }

    /// The refusal that a result of the gateway tells, or `None` if the record was written.
    fn of(result: &v1::PublishResult) -> Option<NotWrittenKind> {
        match v1::PublishError::try_from(result.error) {
            Ok(v1::PublishError::Unspecified) => None,
            Ok(v1::PublishError::Invalid) => Some(NotWrittenKind::Invalid),
            Ok(v1::PublishError::NotAllowed) => Some(NotWrittenKind::NotAllowed),
            Ok(v1::PublishError::TooLarge) => Some(NotWrittenKind::TooLarge),
            Ok(v1::PublishError::NotFound) => Some(NotWrittenKind::NotFound),
            Ok(v1::PublishError::TimedOut) => Some(NotWrittenKind::TimedOut),
            Ok(v1::PublishError::Unavailable) => Some(NotWrittenKind::Unavailable),
            Ok(v1::PublishError::Refused) => Some(NotWrittenKind::Refused),
            Err(_) => Some(NotWrittenKind::Other),
        }
    }
}

impl NotWrittenKind {
    /// Returns whether the record may have been written all the same.
    #[must_use]
    pub const fn may_be_written(self) -> bool {
        match self {
            Self::TimedOut | Self::Unknown | Self::Other => true,
            Self::Invalid
            | Self::NotAllowed
            | Self::TooLarge
            | Self::NotFound
            | Self::Unavailable
            | Self::Refused
            | Self::NotSent => false,
        }
    }
}

impl fmt::Display for NotWrittenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "is not valid",
            Self::NotAllowed => "is not allowed",
            Self::TooLarge => "is too large",
            Self::NotFound => "has nowhere to go",
            Self::TimedOut => "timed out and may or may not be written",
            Self::Unavailable => "was not written this time",
            Self::Refused => "was refused",
            Self::Unknown => "may or may not be written",
            Self::NotSent => "was not sent",
            Self::Other => "was answered with an error that this client does not know",
        })
    }
}

/// What a result of the gateway says.
pub(super) fn outcome(result: v1::PublishResult) -> Outcome {
    match NotWritten::of(&result) {
        None => Ok(Written {
            topic: result.topic,
            partition: result.partition.unwrap_or(-1),
            offset: result.offset,
        }),
        Some(kind) => Err(NotWritten {
            topic: result.topic,
            partition: result.partition,
            kind,
            detail: result.detail,
        }),
    }
}

impl Future for Receipt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| {
            Err(NotWritten {
                topic: String::new(),
                partition: None,
                kind: NotWrittenKind::Unknown,
                detail: "the publisher is gone".to_owned(),
            })
        }))
    }
}
