//! Calls without a stream: `Pull`, `Settle` and `Extend`.
//!
//! A session is attached to its subscription as a stream is, and a task of its own, its
//! [`keeper`], listens for it between calls. Boundary: decides nothing about records; what
//! a call takes, and when it is over, is the driver's to say.
//!
//! **Invariant**: so many sessions as are allowed; each has one `Pull` at a time, a bounded
//! number of other calls, and ends by itself.

mod asked;
mod call;
mod keeper;
mod receipt;
mod seats;
mod sitting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ackgate_proto::{Pulled, v1};
use tokio::sync::Semaphore;
use tonic::{Response, Status};

pub(super) use self::asked::time_left;
pub(crate) use self::receipt::with_receipt;
use self::{
    keeper::Keeper,
    seats::{Absent, Seats},
    sitting::Sitting,
};
use super::{
    age::Age,
    convert, goodbye, handshake,
    outcome::{Outcome, shutting_down},
    service::Gate,
    status::Reason,
};
use crate::{
    access::Principal,
    config::{Batch, Delivery, Listen},
    consumer::{Confirm, End, Input, Session},
    registry::Registry,
};

/// Bytes of an answer beside its batches and its news: a name of 256 bytes, a token, and
/// some numbers.
const ANSWER_ROOM: u64 = 512;

/// What sessions without a stream may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many there may be.
    pub sessions: usize,
    /// How long one lives on once nothing is out to it and no call is made.
    pub idle: Duration,
}

impl Limits {
    /// What the configuration allows.
    #[must_use]
    pub const fn of(listen: &Listen) -> Self {
        Self {
            sessions: listen.max_pull_sessions as usize,
            idle: listen.pull_idle,
        }
    }
}

/// What ends the wait of a call, beside what it asks for.
#[derive(Debug)]
pub(super) struct Wants {
    /// The call's own time, if it has one.
    pub(super) left: Option<Duration>,
    /// The age of its connection.
    pub(super) age: Option<Age>,
}

/// All sessions without a stream.
#[derive(Debug)]
pub(super) struct Pulls {
    registry: Registry,
    gate: Gate,
    /// Numbers of sessions, shared with the streams.
    numbers: Arc<AtomicU64>,
    limits: Limits,
    places: Arc<Semaphore>,
    seats: Seats,
}

impl Pulls {
    pub(super) fn new(
        registry: Registry,
        gate: Gate,
        numbers: Arc<AtomicU64>,
        limits: Limits,
    ) -> Self {
        Self {
            registry,
            gate,
            numbers,
            limits,
            places: Arc::new(Semaphore::new(limits.sessions.min(Semaphore::MAX_PERMITS))),
            seats: Seats::default(),
        }
    }

    /// Takes records.
    pub(super) async fn pull(
        &self,
        request: v1::PullRequest,
        caller: Option<Principal>,
        wants: Wants,
    ) -> Result<Response<Pulled>, Status> {
        let draw = asked::draw(&request, wants.left)?;
        let sitting = if request.session.is_empty() {
            self.begin(request, caller).await?
        } else {
            self.find(&request.session, caller.as_ref())?
        };
        sitting
            .pull(draw, self.limits.idle, wants.age.as_ref())
            .await
    }

    /// Answers records.
    pub(super) async fn settle(
        &self,
        request: v1::SettleRequest,
        caller: Option<Principal>,
    ) -> Result<v1::SettleResponse, Status> {
        let confirm = match v1::Confirm::try_from(request.confirm) {
            Ok(v1::Confirm::Unspecified | v1::Confirm::Applied) => Confirm::Applied,
            Ok(v1::Confirm::Durable) => Confirm::Durable,
            Err(_unknown) => {
                return Err(Reason::PullInvalid.field("settle.confirm", "is not a known value"));
            }
        };
        let (verdicts, refused) = convert::verdicts(request.verdicts)?;
        let sitting = self.find(&request.session, caller.as_ref())?;
        let question = |session, sequence| Input::Settle {
            session,
            sequence,
            verdicts,
            refused,
            confirm,
            ticket: None,
        };
        let answers = sitting.ask(confirm, question).await?;
        if request.close {
            sitting.close().await;
        }
        Ok(v1::SettleResponse {
            answers: convert::answers(answers),
        })
    }

    /// Gives more time.
    pub(super) async fn extend(
        &self,
        request: v1::ExtendRequest,
        caller: Option<Principal>,
    ) -> Result<v1::ExtendResponse, Status> {
        let (targets, refused, by) = convert::extensions(request.extensions, request.by)?;
        let sitting = self.find(&request.session, caller.as_ref())?;
        let question = |session, sequence| Input::Extend {
            session,
            sequence,
            targets,
            refused,
            by,
            confirm: true,
            ticket: None,
        };
        let answers = sitting.ask(Confirm::Applied, question).await?;
        Ok(v1::ExtendResponse {
            answers: convert::answers(answers),
        })
    }

    /// The session of this token, if it is the caller's own.
    fn find(&self, token: &str, caller: Option<&Principal>) -> Result<Arc<Sitting>, Status> {
        let found = self.seats.find(token, caller);
        found.map_err(|absent| match absent {
            Absent::Superseded => Outcome::from(End::Superseded)
                .into_status()
                .unwrap_or_else(unknown),
            Absent::Unknown if self.gate.is_closed() => shutting_down(),
            Absent::Unknown => unknown(),
        })
    }

    /// Attaches a session and starts its keeper.
    async fn begin(
        &self,
        request: v1::PullRequest,
        caller: Option<Principal>,
    ) -> Result<Arc<Sitting>, Status> {
        if self.gate.is_closed() {
            return Err(shutting_down());
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_full| {
            Reason::TooManyPullSessions.status(format!(
                "{} sessions without a stream are here, which is as many as are allowed; one ends \
                 when it is closed, or some time after nothing is out to it",
                self.limits.sessions
            ))
        })?;
        let is_anonymous = request.subscriber_id.is_empty();
        let open = asked::opening(request);
        let refused = |status| asked::in_words_of_pull(&status);
        let opening = handshake::accept(open, &self.registry).await;
        let mut opening = opening.map_err(refused)?;
        let subscription = opening.handle.subscription();
        let is_broadcast = matches!(subscription.delivery, Delivery::Broadcast(_));
        if is_broadcast && is_anonymous {
            return Err(Reason::PullInvalid.field(
                "pull.subscriber_id",
                "is required where the subscription is a broadcast: what each subscriber owes is \
                 kept by name",
            ));
        }
        let Some(token) = token() else {
            // Without randomness anybody could answer.
            return Err(Reason::NotReady.status("the gateway's system has no randomness"));
        };
        opening.pulls = true;
        // Calls fill answers, not batches.
        opening.batch = Batch {
            linger: Duration::ZERO,
            ..opening.batch
        };
        opening.max_message_bytes -= ANSWER_ROOM;
        let session = Session(self.numbers.fetch_add(1, Ordering::Relaxed) + 1);
        let attached = goodbye::attach(&mut opening, session).await;
        let attached = attached.map_err(refused)?;
        let (sitting, calls) = Sitting::new(token, session, caller, &opening);
        let sitting = Arc::new(sitting);
        let keeper = Keeper::new(
            Arc::clone(&sitting),
            calls,
            attached,
            &opening,
            is_broadcast,
            self.limits.idle,
        );
        let seat = self.seats.take(Arc::clone(&sitting), place);
        let counts = self.gate.pull();
        tokio::spawn(async move {
            keeper.run().await;
            drop((seat, counts));
        });
        Ok(sitting)
    }
}

fn unknown() -> Status {
    Reason::PullSessionUnknown.status(
        "no such session in this gateway: it has ended, or another gateway has it, in which case \
         all calls of a session have to be made over one connection; what was out to a session \
         that has ended is delivered again",
    )
}

/// As hard to guess as a 128-bit key; `None` if the system has no randomness.
fn token() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
