//! One gateway of a subscriber: runs one session after the other until the subscriber
//! closes, an error comes that trying again does not help, or the gateway is no longer one
//! of those that the addresses stand for.
//!
//! A gateway that asks to leave is left at once: the next session is opened while the old
//! one still answers what is in hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time,
};
use tonic::Code;

use crate::{
    Batch, Builder, Error,
    dial::{Dialer, Target},
    event::Event,
    options::Confirm,
    roll::{Leg, Roll},
    session::{self, End, Session},
    settler::Settler,
    stats::Counters,
    tries::{Retry, Tries},
};

/// Streams of one gateway that may be leaving at a time; beyond that the next one waits.
const MOST_LEAVING: usize = 4;

/// Tries to go on with a stream that was lost while it left.
const REST_TRIES: u32 = 5;

/// How long a name may stay taken by a stream that leaves, before the next look.
const NAME_TAKEN: Duration = Duration::from_secs(1);

/// What all gateways of a subscriber share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Builder,
    pub(crate) dialer: Dialer,
    pub(crate) counters: Arc<Counters>,
    pub(crate) roll: Arc<Roll>,
    /// Where batches go; bounded, the reader waits.
    pub(crate) queue: mpsc::Sender<Result<Batch, Error>>,
    /// True, or without a sender: say goodbye and stop.
    pub(crate) closing: watch::Receiver<bool>,
    /// A stream was lost: the time to look again where gateways are.
    pub(crate) lost: Notify,
    /// A stream is open.
    pub(crate) opened: Notify,
}

/// One gateway.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) target: Target,
    /// For people.
    pub(crate) name: String,
    /// Whether it has had a stream.
    pub(crate) begun: AtomicBool,
    /// Whether the addresses still stand for it.
    pub(crate) wanted: AtomicBool,
}

/// How it ended with a gateway.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The subscriber said goodbye, or there is nothing left for it.
    Closed(Result<(), Error>),
    /// Trying again does not help, or has been tried often enough.
    GaveUp(Error),
    /// It is none of the subscriber's gateways any more, and its stream was lost.
    Gone,
}

/// A stream that left, and what is still in hand of it if it was lost before.
type Left = Option<Arc<Leg>>;

impl Link {
    pub(crate) fn new(shared: Arc<Shared>, target: Target) -> Self {
        Self {
            name: shared.dialer.name(&target),
            shared,
            target,
            begun: AtomicBool::new(false),
            wanted: AtomicBool::new(true),
        }
    }

    /// Keeps a stream open.
    pub(crate) async fn run(self: Arc<Self>) -> Outcome {
        let mut leaving: JoinSet<Left> = JoinSet::new();
        let leg = self.leg();
        let mut legs = Legs {
            link: &self,
            leg,
            leaving: &mut leaving,
        };
        let outcome = legs.keep().await;
        // Nothing is gone on with: what is still in hand does not count any more.
        self.over(&legs.leg);
        while let Some(left) = leaving.join_next().await {
            if let Ok(Some(leg)) = left {
                self.over(&leg);
            }
        }
        outcome
    }

    fn leg(&self) -> Arc<Leg> {
        let options = &self.shared.options;
        let settler = Settler::new(
            Arc::clone(&self.shared.counters),
            options.flush_interval,
            options.flush_records,
            options.confirm == Confirm::Durable,
        );
        let leg = Arc::new(Leg::new(self.name.clone(), settler));
        self.shared.roll.enter(&leg);
        leg
    }

    fn over(&self, leg: &Arc<Leg>) {
        leg.settler.end(false);
        self.shared.roll.leave(leg);
    }

    /// Answers what is in hand of a stream that leaves.
    async fn leave(self: Arc<Self>, session: Box<Session>, leg: Arc<Leg>) -> Left {
        let end = session.finish().await;
        let broken = matches!(end, End::Failed { .. });
        if broken && leg.resume().is_some() && leg.settler.out() > 0 {
            return Some(leg);
        }
        self.over(&leg);
        None
    }

    /// Goes on with a stream that was lost while it left, for what is in hand of it alone.
    async fn rest(self: Arc<Self>, leg: Arc<Leg>) -> Left {
        let retry = Retry {
            limit: Some(REST_TRIES),
            ..self.shared.options.retry
        };
        let mut tries = Tries::new(retry, "subscriber");
        let mut closing = self.shared.closing.clone();
        while leg.resume().is_some() && leg.settler.out() > 0 {
            let end = tokio::select! {
                () = session::closed(&mut closing) => break,
                opened = session::open(&self, &leg) => match opened {
                    Ok(session) => session.finish().await,
                    Err(error) => End::Failed { error, useful: false },
                },
            };
            let End::Failed { error, .. } = end else {
                break;
            };
            let Some(delay) = tries
                .after_failure(&error, false)
                .filter(|_| error.is_retryable())
            else {
                break;
            };
            tokio::select! {
                () = session::closed(&mut closing) => break,
                () = time::sleep(delay) => {}
            }
        }
        self.over(&leg);
        None
    }
}

/// The stream of the moment and those that leave.
struct Legs<'a> {
    link: &'a Arc<Link>,
    leg: Arc<Leg>,
    leaving: &'a mut JoinSet<Left>,
}

impl Legs<'_> {
    async fn keep(&mut self) -> Outcome {
        let shared = Arc::clone(&self.link.shared);
        let mut closing = shared.closing.clone();
        let mut tries = Tries::new(shared.options.retry, "subscriber");
        loop {
            self.take_back();
            let mut was_open = false;
            let end = tokio::select! {
                () = session::closed(&mut closing) => return Outcome::Closed(Ok(())),
                opened = session::open(self.link, &self.leg) => opened,
            };
            let end = match end {
                Ok(session) => {
                    was_open = true;
                    shared.opened.notify_one();
                    self.carry(session).await
                }
                Err(error) => End::Failed {
                    error,
                    useful: false,
                },
            };
            let delay = match end {
                End::Closed(result) => return Outcome::Closed(result),
                End::Leaves(session) => {
                    self.hand_over(session).await;
                    tries.after_success()
                }
                End::Drained => tries.after_success(),
                End::Failed { error, .. } if !error.is_retryable() => {
                    return Outcome::GaveUp(error);
                }
                End::Failed { error, .. } if self.is_name_taken(&error) => {
                    self.until_one_has_left(&mut closing).await;
                    continue;
                }
                End::Failed { error, useful } => {
                    shared.lost.notify_one();
                    let Some(delay) = tries.after_failure(&error, useful) else {
                        return Outcome::GaveUp(tries.gave_up(error));
                    };
                    tries.note(&error, delay, was_open);
                    shared.counters.tell(&Event::Disconnected {
                        gateway: &self.link.name,
                        error: &error,
                        retry_in: delay,
                    });
                    delay
                }
            };
            tokio::select! {
                () = session::closed(&mut closing) => return Outcome::Closed(Ok(())),
                () = time::sleep(delay) => {}
            }
            if !self.link.wanted.load(Relaxed) {
                return Outcome::Gone;
            }
        }
    }

    /// Reads a session, and sees to those that were lost while they left.
    async fn carry(&mut self, session: Box<Session>) -> End {
        let mut carrying = Box::pin(session.carry());
        loop {
            tokio::select! {
                end = &mut carrying => return end,
                Some(left) = self.leaving.join_next() => {
                    let Ok(Some(leg)) = left else { continue };
                    // Under a name of the program's own the stream of the moment would be
                    // the one that is gone on with.
                    if self.link.shared.options.subscriber_id.is_empty() {
                        self.leaving.spawn(Arc::clone(self.link).rest(leg));
                    } else {
                        self.link.over(&leg);
                    }
                }
            }
        }
    }

    /// The next session is another leg's.
    async fn hand_over(&mut self, session: Box<Session>) {
        if self.leaving.len() >= MOST_LEAVING {
            session.finish().await;
            self.leg.set_leaving(false);
            return;
        }
        let leg = std::mem::replace(&mut self.leg, self.link.leg());
        let leave = Arc::clone(self.link).leave(session, leg);
        self.leaving.spawn(leave);
    }

    /// Goes on with a stream that was lost while it left, if nothing has taken its place.
    fn take_back(&mut self) {
        while self.leg.resume().is_none()
            && let Some(left) = self.leaving.try_join_next()
        {
            self.go_on_with(left.ok().flatten());
        }
    }

    fn go_on_with(&mut self, left: Left) {
        if let Some(leg) = left {
            leg.set_leaving(false);
            let unused = std::mem::replace(&mut self.leg, leg);
            self.link.over(&unused);
        }
    }

    /// Whether the name is that of a stream which leaves.
    fn is_name_taken(&self, error: &Error) -> bool {
        error.code() == Some(Code::AlreadyExists) && !self.leaving.is_empty()
    }

    /// Waits for a stream that leaves. If it was lost, it is the one to go on with.
    async fn until_one_has_left(&mut self, closing: &mut watch::Receiver<bool>) {
        let left = tokio::select! {
            Some(left) = self.leaving.join_next() => left,
            () = time::sleep(NAME_TAKEN) => return,
            () = session::closed(closing) => return,
        };
        self.go_on_with(left.ok().flatten());
    }
}
