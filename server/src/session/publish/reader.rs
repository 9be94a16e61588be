//! The publisher's half of a stream: messages in, records to the feed. It reads no
//! further than the feed takes.

use std::time::Duration;

use ackgate_proto::v1;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};
use v1::publish_request::Request;

use super::{opening, record, too_large::too_large};
use crate::{
    publish::Feed,
    session::{convert, handshake::OPEN_WITHIN, status::Reason},
};

/// Longest time that `Close` can ask for.
const LONGEST_CLOSE: Duration = Duration::from_secs(300);

/// How a publisher's half ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// Until when Kafka is waited for.
    pub(super) by: Instant,
    /// The status to end with instead of `PublishClosed`.
    pub(super) status: Option<Status>,
}

/// Waits for the options.
pub(super) async fn options(
    input: &mut Streaming<v1::PublishRequest>,
) -> Result<v1::PublishOptions, Status> {
    let first = timeout(OPEN_WITHIN, input.message()).await;
    let first = first.map_err(|_elapsed| {
        Reason::OpenTimeout.status(format!("no `open` within {OPEN_WITHIN:?} of the call"))
    })?;
    let message = first.map_err(|status| broken(&status))?;
    match message.map(|message| message.request) {
        Some(Some(Request::Open(options))) => Ok(options),
        None => Err(Reason::OpenExpected.status("the input ended before an `open`")),
        Some(Some(Request::Records(_) | Request::Close(_)) | None) => {
            Err(Reason::OpenExpected.status("the first message must be `open`"))
        }
    }
}

/// Reads until the publisher ends, breaks a rule, or nobody is there any more.
pub(super) async fn run(
    mut input: Streaming<v1::PublishRequest>,
    mut feed: Feed,
    gone: &CancellationToken,
    patience: Duration,
    max_record_bytes: u64,
) -> Ending {
    let end = |patience, status| Ending {
        by: Instant::now() + patience,
        status,
    };
    loop {
        let message = tokio::select! {
            biased;
            () = gone.cancelled() => return end(Duration::ZERO, None),
            message = input.message() => message,
        };
        let request = match message {
            Ok(Some(message)) => message.request,
            Ok(None) => return end(patience, None),
            Err(status) => return end(patience, Some(broken(&status))),
        };
        let refused = match request {
            Some(Request::Records(v1::PublishRecords { records })) => {
                match opening::check_number(records.len(), "records.records") {
                    Err(status) => status,
                    Ok(()) => {
                        let draft = |record| record::draft(record, max_record_bytes);
                        feed.take(records.into_iter().map(draft)).await;
                        continue;
                    }
                }
            }
            Some(Request::Close(close)) => match close.timeout.map(Duration::try_from) {
                None => return end(patience, None),
                Some(Ok(wanted)) if wanted <= LONGEST_CLOSE => return end(wanted, None),
                Some(_) => Reason::OpenInvalid.field("close.timeout", "must be 0 to 5 min"),
            },
            Some(Request::Open(_)) => {
                Reason::AlreadyOpen.status("the stream is open: `open` comes once, first")
            }
            None => Reason::EmptyRequest.status(
                "a message without a request that this gateway knows; it may need a newer version",
            ),
        };
        return end(patience, Some(refused));
    }
}

/// The status of a stream whose input could not be read.
fn broken(status: &Status) -> Status {
    if status.code() == Code::OutOfRange {
        return too_large();
    }
    convert::input_broken(status)
}
