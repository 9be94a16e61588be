//! Delivery reports: whoever waits for a record learns what became of it.

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::KafkaError,
    message::{BorrowedMessage, Message as _},
    producer::{DeliveryResult, ProducerContext},
};
use tokio::sync::oneshot;
use tracing::debug;

use super::super::{
    alone::Alone,
    client_log::{Origin, log},
    error as errors,
};
use crate::broker::{Placed, Receipt, Unwritten, Why};

/// Where a record's delivery report goes.
pub(in super::super) enum Waiting {
    Future(oneshot::Sender<Result<Placed, KafkaError>>),
    /// With the record's timestamp, which a failed record's report does not have.
    Receipt(Receipt, Option<i64>),
}

/// Takes delivery reports. Errors reach whoever waits for a record; here they are for
/// whoever debugs.
pub(in super::super) struct Reports {
    pub(super) alone: Option<Alone>,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(Origin::Producer, level, facility, line);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, detail = reason, "producer reports an error");
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Waiting>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiting: Box<Waiting>) {
        let placed = |record: &BorrowedMessage<'_>| Placed {
            partition: record.partition(),
            offset: record.offset(),
        };
        match (*waiting, result) {
            // Nobody waits any more: the future was dropped.
            (Waiting::Future(report), Ok(record)) => drop(report.send(Ok(placed(record)))),
            (Waiting::Future(report), Err((error, _))) => drop(report.send(Err(error.clone()))),
            (Waiting::Receipt(receipt, _), Ok(record)) => receipt.answer(Ok(placed(record))),
            (Waiting::Receipt(receipt, timestamp_ms), Err((error, record))) => {
                let receipt = match &self.alone {
                    None => receipt,
                    Some(alone) => match alone.again(error, record, timestamp_ms, receipt) {
                        Ok(()) => return,
                        Err(receipt) => receipt,
                    },
                };
                receipt.answer(Err(unwritten(error)));
            }
        }
    }
}

/// What a publisher is told of a record that was not written.
pub(super) fn unwritten(error: &KafkaError) -> Unwritten {
    let code = error.rdkafka_error_code();
    Unwritten {
        why: code.map_or(Why::Refused, errors::why),
        detail: code.map_or_else(|| error.to_string(), |code| code.to_string()),
    }
}
