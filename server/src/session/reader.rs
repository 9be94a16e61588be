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
use crate::consumer::{ANSWERS, Confirm, End, Handle, Input, Session, Ticket};

/// So many verdicts that wait to become durable take a place: 10,000, the most of a
/// message, take most of them.
const VERDICTS_PER_PLACE: usize = 40;

/// Reads until the subscriber says goodbye, goes, or breaks a rule.
pub(super) async fn run(
    mut input: Streaming<v1::SubscribeRequest>,
    handle: &Handle,
    session: Session,
    confirm: Confirm,
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
        let weight = weight(&input, confirm);
        if let Input::Settle { ticket, .. } | Input::Extend { ticket, .. } = &mut input {
            // Only a subscriber that reads nothing makes its own verdicts wait here, or
            // one whose confirmations wait for Kafka.
            let place = timeout(stall, Arc::clone(&places).acquire_many_owned(weight)).await;
            let Ok(Ok(place)) = place else {
                return if confirm == Confirm::Durable {
                    End::NotDurable.into()
                } else {
                    End::NotReading.into()
                };
            };
            *ticket = Some(Ticket::new(place));
        }
        if handle.send(input).await.is_err() {
            return Outcome::Refused(shutting_down());
        }
    }
}

/// How many places a message takes. What waits to become durable is remembered run by
/// run, so many verdicts at once take more.
pub(super) fn weight(input: &Input, confirm: Confirm) -> u32 {
    match input {
        Input::Settle { verdicts, .. } if confirm == Confirm::Durable => {
            let runs = verdicts.len() / VERDICTS_PER_PLACE;
            u32::try_from(runs).map_or(1, |runs| runs.max(1))
        }
        Input::Settle { .. }
        | Input::Extend { .. }
        | Input::Attach(..)
        | Input::Credit(..)
        | Input::Draw(..)
        | Input::EndDraw(_)
        | Input::Retire(..)
        | Input::Sent { .. }
        | Input::Drain(..)
        | Input::Detach(..)
        | Input::Beat(_)
        | Input::Show(_)
        | Input::Measure(_)
        | Input::ResetBreakers(..)
        | Input::Stop(_) => 1,
    }
}

/// The driver's words for a message; `None` for the goodbye.
fn convert_request(
    request: Option<Request>,
    session: Session,
    confirm: Confirm,
) -> Result<Option<Input>, Status> {
    match request {
        Some(Request::Settle(settle)) => {
            let sequence = settle.sequence;
            let (verdicts, refused) = convert::verdicts(settle.verdicts)?;
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
            let (targets, refused, by) = convert::extensions(extend.extensions, extend.by)?;
            Ok(Some(Input::Extend {
                session,
                sequence,
                targets,
                refused,
                by,
                confirm: confirm != Confirm::Problems,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_durable_message_takes_most_places_and_no_more_than_there_are() {
        let weighs = |verdicts: usize, confirm| {
            let one = v1::Verdict {
                outcome: v1::Outcome::Acked.into(),
                ..v1::Verdict::default()
            };
            let settle = v1::Settle {
                sequence: 1,
                verdicts: vec![one; verdicts],
            };
            let request = Some(Request::Settle(settle));
            let input = convert_request(request, Session(1), confirm).expect("it is valid");
            weight(&input.expect("an input"), confirm)
        };
        let most = convert::MAX_VERDICTS;
        assert_eq!(weighs(1, Confirm::Durable), 1);
        assert_eq!(weighs(most, Confirm::Durable), 250);
        const { assert!(250 <= ANSWERS, "it would wait for ever") };
        assert_eq!(weighs(most, Confirm::Applied), 1);
    }
}
