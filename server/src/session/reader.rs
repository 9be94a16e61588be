//! The subscriber's half of a stream: messages in, to the driver. It waits for the
//! writer only when the subscriber has left 256 answers unread, and not for long.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use tokio::{sync::Semaphore, time::timeout};
use tonic::{Status, Streaming};
use v1::subscribe_request::Request;

use super::{
    convert,
    outcome::{Outcome, shutting_down},
    status::Reason,
};
use crate::consumer::{ANSWERS, End, Handle, Input, Session, Ticket};

/// Reads until the subscriber says goodbye, goes, or breaks a rule.
pub(super) async fn run(
    mut input: Streaming<v1::SubscribeRequest>,
    handle: &Handle,
    session: Session,
    confirm: bool,
    stall: Duration,
) -> Outcome {
    let places = Arc::new(Semaphore::new(ANSWERS));
    loop {
        let message = match input.message().await {
            Ok(Some(message)) => message,
            // A cancelled call looks the same: only `Close` is a goodbye.
            Ok(None) => {
                return Outcome::Refused(Reason::InputEnded.status(
                    "the input ended without Close; what was out will be delivered again",
                ));
            }
            Err(status) => return Outcome::Refused(convert::input_broken(&status)),
        };
        let mut input = match convert_request(message.request, session, confirm) {
            Ok(Some(input)) => input,
            Ok(None) => return Outcome::Closed,
            Err(status) => return Outcome::Refused(status),
        };
        if let Input::Settle { ticket, .. } | Input::Extend { ticket, .. } = &mut input {
            // Only a subscriber that reads nothing makes its own verdicts wait here.
            let place = timeout(stall, Arc::clone(&places).acquire_owned()).await;
            let Ok(Ok(place)) = place else {
                return End::NotReading.into();
            };
            *ticket = Some(Ticket::new(place));
        }
        if handle.send(input).await.is_err() {
            return Outcome::Refused(shutting_down());
        }
    }
}

/// The driver's words for a message; `None` for the goodbye.
fn convert_request(
    request: Option<Request>,
    session: Session,
    confirm: bool,
) -> Result<Option<Input>, Status> {
    match request {
        Some(Request::Settle(settle)) => {
            let sequence = settle.sequence;
            let (verdicts, refused) = convert::verdicts(settle)?;
            Ok(Some(Input::Settle {
                session,
                sequence,
                verdicts,
                refused,
                confirm,
                ticket: None,
            }))
        }
        Some(Request::Extend(extend)) => {
            let sequence = extend.sequence;
            let (targets, refused, by) = convert::extensions(extend)?;
            Ok(Some(Input::Extend {
                session,
                sequence,
                targets,
                refused,
                by,
                confirm,
                ticket: None,
            }))
        }
        Some(Request::Credit(credit)) => Ok(Some(Input::Credit(session, convert::credit(credit)?))),
        Some(Request::Beat(v1::Beat {})) => Ok(Some(Input::Beat(session))),
        Some(Request::Close(v1::Close {})) => Ok(None),
        Some(Request::Open(_)) => {
            Err(Reason::AlreadyOpen.status("the stream is open: Open comes once, first"))
        }
        None => Err(Reason::EmptyRequest.status(
            "a message without a request that this gateway knows; it may need a newer version",
        )),
    }
}
