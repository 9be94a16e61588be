//! rdkafka's errors in the gateway's words: what to do, and a text without secrets.

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaConfRes,
};

use crate::broker::{Error, ErrorKind, Why};

/// What the cluster's complaint means for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No broker answers, or none lets us in.
    Brokers,
    /// A subscribed topic is missing or closed to us.
    Topics,
    /// The group refuses us.
    Group,
}

/// Says what `code` asks of whoever commits, seeks or produces.
pub(super) fn kind(code: RDKafkaErrorCode) -> ErrorKind {
    use RDKafkaErrorCode as C;
    if matches!(
        code,
        C::MessageSizeTooLarge
            | C::InvalidMessageSize
            | C::MessageBatchTooLarge
            | C::OffsetMetadataTooLarge
    ) {
        ErrorKind::TooLarge
    } else if trouble(code).is_some_and(|trouble| trouble != Trouble::Brokers)
        || matches!(
            code,
            C::UnknownPartition
                | C::Authentication
                | C::SaslAuthenticationFailed
                | C::ClusterAuthorizationFailed
                | C::TransactionalIdAuthorizationFailed
                | C::InvalidRecord
                | C::PolicyViolation
                | C::AutoOffsetReset
                | C::OffsetOutOfRange
        )
    {
        ErrorKind::Operator
    } else {
        ErrorKind::Transient
    }
}

/// Says what `code` means for a record that was to be written. Only what the client
/// library counts as not persisted may be called unavailable, which is taken to mean that
/// sending it again writes it once.
pub(super) fn why(code: RDKafkaErrorCode) -> Why {
    use RDKafkaErrorCode as C;
    if matches!(
        code,
        C::UnknownTopic | C::UnknownTopicOrPartition | C::UnknownPartition | C::UnknownTopicId
    ) {
        Why::NotFound
    } else if matches!(
        code,
        C::TopicAuthorizationFailed | C::ClusterAuthorizationFailed
    ) {
        Why::Denied
    } else if matches!(
        code,
        C::MessageSizeTooLarge | C::InvalidMessageSize | C::MessageBatchTooLarge
    ) {
        Why::TooLarge
    } else if matches!(
        code,
        C::MessageTimedOut
            | C::RequestTimedOut
            | C::OperationTimedOut
            | C::PurgeInflight
            // The leader has it, and the replicas may.
            | C::NotEnoughReplicasAfterAppend
            // The request was under way, and its answer is lost.
            | C::BrokerTransportFailure
            | C::NetworkException
            | C::Unknown
            // Of a batch that was sent before, of which that is not known.
            | C::OutOfOrderSequenceNumber
            | C::DuplicateSequenceNumber
            | C::UnknownProducerId
    ) {
        Why::TimedOut
    } else if matches!(
        code,
        C::InvalidRecord
            | C::InvalidTopic
            | C::InvalidTimestamp
            | C::InvalidMessage
            | C::InvalidRequiredAcks
            | C::PolicyViolation
            | C::UnsupportedForMessageFormat
            | C::UnsupportedCompressionType
            | C::InvalidArgument
    ) {
        Why::Refused
    } else {
        Why::Unavailable
    }
}

/// Sorts an error event; `None` if librdkafka gets over it by itself.
pub(super) fn trouble(code: RDKafkaErrorCode) -> Option<Trouble> {
    use RDKafkaErrorCode as C;
    if matches!(
        code,
        C::AllBrokersDown
            | C::Authentication
            | C::SaslAuthenticationFailed
            | C::UnsupportedSASLMechanism
            | C::IllegalSASLState
            | C::SSL
            | C::ClusterAuthorizationFailed
    ) {
        Some(Trouble::Brokers)
    } else if matches!(
        code,
        C::UnknownTopic
            | C::UnknownTopicOrPartition
            | C::TopicAuthorizationFailed
            | C::InvalidTopic
    ) {
        Some(Trouble::Topics)
    } else if matches!(
        code,
        C::GroupAuthorizationFailed
            | C::InconsistentGroupProtocol
            | C::InvalidGroupId
            | C::InvalidSessionTimeout
            | C::GroupMaxSizeReached
            | C::UnsupportedVersion
    ) {
        Some(Trouble::Group)
    } else {
        None
    }
}

/// Whether a lane that met `code` would skip records if it went on: librdkafka
/// passes over batches that it cannot read.
pub(super) fn ends_lane(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as C;
    matches!(
        code,
        C::BadMessage
            | C::BadCompression
            | C::NotImplemented
            | C::InvalidMessage
            | C::MessageSizeTooLarge
    )
}

/// Whether the log does not have the position that was to be read: librdkafka has
/// stopped the lane and waits to be told where to go on.
pub(super) fn is_astray(code: RDKafkaErrorCode) -> bool {
    code == RDKafkaErrorCode::AutoOffsetReset
}

/// An error of `code` while doing `what`.
pub(super) fn coded(code: RDKafkaErrorCode, what: &str) -> Error {
    Error {
        kind: kind(code),
        detail: format!("{what}: {code}"),
    }
}

/// An error of rdkafka while doing `what`.
pub(super) fn mapped(error: &KafkaError, what: &str) -> Error {
    if let KafkaError::ClientConfig(why, _, name, _) = error {
        // The text and the value are left out: the value may be a secret.
        let why = match why {
            RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN => "there is no such property",
            RDKafkaConfRes::RD_KAFKA_CONF_INVALID | RDKafkaConfRes::RD_KAFKA_CONF_OK => {
                "its value is not valid"
            }
        };
        return Error {
            kind: ErrorKind::Operator,
            detail: format!("{what}: property `{name}`: {why}"),
        };
    }
    match error.rdkafka_error_code() {
        Some(code) => coded(code, what),
        None => Error {
            kind: ErrorKind::Transient,
            detail: format!("{what}: {error}"),
        },
    }
}

/// A transient error in words.
pub(super) fn transient(detail: impl Into<String>) -> Error {
    Error {
        kind: ErrorKind::Transient,
        detail: detail.into(),
    }
}

/// The error of a lane that is no longer ours.
pub(super) fn fenced() -> Error {
    Error {
        kind: ErrorKind::Fenced,
        detail: "the lane is no longer assigned to this gateway".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_property_is_named_without_its_value() {
        let error = KafkaError::ClientConfig(
            RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"hunter2\"".to_owned(),
            "sasl.password".to_owned(),
            "hunter2".to_owned(),
        );
        let mapped = mapped(&error, "client settings");
        assert_eq!(mapped.kind, ErrorKind::Operator);
        assert!(mapped.detail.contains("sasl.password"), "{}", mapped.detail);
        assert!(!mapped.detail.contains("hunter2"), "{}", mapped.detail);
    }

    #[test]
    fn unwritten_records_say_whether_to_send_them_again() {
        use RDKafkaErrorCode as C;
        for (code, expected) in [
            (C::UnknownTopic, Why::NotFound),
            (C::UnknownPartition, Why::NotFound),
            (C::TopicAuthorizationFailed, Why::Denied),
            (C::MessageSizeTooLarge, Why::TooLarge),
            (C::MessageTimedOut, Why::TimedOut),
            (C::NotEnoughReplicasAfterAppend, Why::TimedOut),
            (C::BrokerTransportFailure, Why::TimedOut),
            (C::NetworkException, Why::TimedOut),
            (C::Unknown, Why::TimedOut),
            (C::OutOfOrderSequenceNumber, Why::TimedOut),
            (C::DuplicateSequenceNumber, Why::TimedOut),
            (C::UnknownProducerId, Why::TimedOut),
            (C::NotEnoughReplicas, Why::Unavailable),
            (C::PurgeQueue, Why::Unavailable),
            (C::PurgeInflight, Why::TimedOut),
            (C::Fatal, Why::Unavailable),
            (C::InvalidRecord, Why::Refused),
            (C::PolicyViolation, Why::Refused),
        ] {
            assert_eq!(why(code), expected, "{code}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        for (code, expected) in [
            (RDKafkaErrorCode::MessageSizeTooLarge, ErrorKind::TooLarge),
            (
                RDKafkaErrorCode::UnknownTopicOrPartition,
                ErrorKind::Operator,
            ),
            (
                RDKafkaErrorCode::TopicAuthorizationFailed,
                ErrorKind::Operator,
            ),
            (RDKafkaErrorCode::IllegalGeneration, ErrorKind::Transient),
            (RDKafkaErrorCode::RebalanceInProgress, ErrorKind::Transient),
            (RDKafkaErrorCode::NotCoordinator, ErrorKind::Transient),
            (RDKafkaErrorCode::MessageTimedOut, ErrorKind::Transient),
            (RDKafkaErrorCode::QueueFull, ErrorKind::Transient),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
