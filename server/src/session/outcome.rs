//! How a session ended, for both of its halves, its status and its log line.

use tonic::Status;

use super::status::Reason;
use crate::consumer::{Departure, End, Refusal};

/// The end of a session.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The subscriber said goodbye and has been told everything.
    Closed,
    /// The transport has gone: there is nobody to tell.
    Gone,
    /// The stream ends with this.
    Refused(Status),
}

impl Outcome {
    /// What the driver has to know: anything but a goodbye is a loss.
    pub(super) const fn departure(&self) -> Departure {
        match self {
            Self::Closed => Departure::Closed,
            Self::Gone | Self::Refused(_) => Departure::Lost,
        }
    }

    /// One word for the log: a status may hold what clients sent.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Gone => "gone",
            Self::Refused(status) => status.code().description(),
        }
    }

    /// The status to end with; `None` is OK.
    pub(super) fn into_status(self) -> Option<Status> {
        match self {
            Self::Closed | Self::Gone => None,
            Self::Refused(status) => Some(status),
        }
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            // Everything was answered, so there is no difference to a goodbye.
            End::Closed | End::Drained => Self::Closed,
            End::ShuttingDown => Self::Refused(shutting_down()),
            End::ConnectionAged => Self::Refused(connection_aged()),
            End::TooManyAnswers => Self::Refused(Reason::TooManyAnswers.status(
                "the verdicts of one message have more than 20000 different answers; name \
                 what was delivered, in shorter runs",
            )),
            End::Superseded => {
                Self::Refused(Reason::Superseded.status(
                    "another stream or session of the same subscriber took this one's place",
                ))
            }
            End::Slow => Self::Refused(Reason::SlowSubscriber.status(
                "the subscriber kept the window of a lane full for longer than slow_after without \
                  a verdict; what it owes is kept for absent_grace: connect again with the same \
                  subscriber_id and take fewer records at a time, or raise slow_after",
            )),
            End::NotDurable => Self::Refused(Reason::CommitsStalled.status(
                "as many confirmations wait for Kafka as may, and none has come for long; what \
                 they are for may come again",
            )),
            End::NotReading => Self::Refused(Reason::NotReading.status(
                "the subscriber sends verdicts but does not read their answers; read the stream \
                 in a task of its own",
            )),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::InUse => Reason::SubscriberIdInUse.field(
                "open.subscriber_id",
                "is the name of a subscriber that is attached; choose another, wait until it \
                 has gone, or set open.takeover to end its stream",
            ),
            Refusal::ShuttingDown => shutting_down(),
        }
    }
}

/// What is told where the connection is too old to wait on.
pub(crate) fn connection_aged() -> Status {
    Reason::ConnectionAged
        .status("the connection is as old as the gateway lets it become; connect again")
}

/// What a stream is told while the gateway stops.
pub(super) fn shutting_down() -> Status {
    Reason::ShuttingDown.status("the gateway is shutting down; connect again")
}
