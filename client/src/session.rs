//! One session: connects, opens the stream, and reads it to its end.
//!
//! Boundary: knows nothing of earlier or later sessions; `link` does.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use futures::future;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{self, Instant},
};
use tonic::{Status, Streaming};
use v1::subscribe_response::Response;

mod open;

use crate::{
    Batch, Error, Problem, ProblemKind,
    event::{DrainReason, Event},
    lane_event,
    link::Link,
    options::Confirm,
    roll::Leg,
    stats::add,
};
pub(crate) use open::open;

/// How long the writing half may take to notice that the session is over.
const WRITER_GRACE: Duration = Duration::from_secs(1);

/// How a session ended.
pub(crate) enum End {
    /// The subscriber said goodbye, or there is nothing left for it.
    Closed(Result<(), Error>),
    /// The gateway asked to leave. What is in hand is still answered here.
    Leaves(Box<Session>),
    /// The gateway asked to leave, and everything was answered.
    Drained,
    /// Anything else. `useful`: records came, or it lasted.
    Failed { error: Error, useful: bool },
}

/// An open stream.
pub(crate) struct Session {
    link: Arc<Link>,
    leg: Arc<Leg>,
    /// The settler's number of it.
    number: u64,
    stream: Streaming<v1::SubscribeResponse>,
    writing: JoinHandle<()>,
    /// Longest silence; `None`: no limit.
    silence: Option<Duration>,
    /// Until when the end of the stream is awaited after the goodbye.
    closing_until: Option<Instant>,
    draining: bool,
    begun: Instant,
    useful: bool,
}

/// Waits for the wish to close.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to wish anything else.
    drop(closing.wait_for(|closing| *closing).await);
}

async fn finish(writing: &mut JoinHandle<()>) {
    if time::timeout(WRITER_GRACE, &mut *writing).await.is_err() {
        writing.abort();
    }
}

impl Session {
    /// Reads to the end of the stream, or until the gateway asks to leave.
    pub(crate) async fn carry(mut self: Box<Self>) -> End {
        match self.read(true).await {
            Some(end) => self.over(end).await,
            None => {
                self.leg.set_leaving(true);
                self.leg.settler.drain();
                End::Leaves(self)
            }
        }
    }

    /// Reads to the end of the stream, asked to leave or not.
    pub(crate) async fn finish(mut self: Box<Self>) -> End {
        match self.read(false).await {
            Some(end) => self.over(end).await,
            None => End::Drained,
        }
    }

    async fn over(mut self: Box<Self>, end: End) -> End {
        let broken = match &end {
            End::Failed { error, .. } => error.is_retryable() && self.leg.resume().is_some(),
            End::Closed(_) | End::Drained | End::Leaves(_) => false,
        };
        if !broken {
            self.leg.forget();
        }
        let settler = &self.leg.settler;
        settler.end(broken);
        if let Some(waits) = settler.waits() {
            waits.end();
        }
        finish(&mut self.writing).await;
        end
    }

    /// `None`: the gateway asks to leave, and `leaves` says that the caller sees to it.
    async fn read(&mut self, leaves: bool) -> Option<End> {
        let mut closing = self.link.shared.closing.clone();
        let closing = &mut closing;
        loop {
            let message = tokio::select! {
                () = closed(closing), if self.closing_until.is_none() => {
                    self.begin_close();
                    continue;
                }
                message = next(&mut self.stream, self.silence, self.closing_until) => message,
            };
            let response = match message {
                Next::Message(message) => message.response,
                Next::Silent(silence) => return Some(self.end(Error::Silent(silence))),
                Next::Overdue => {
                    let timeout = self.link.shared.options.close_timeout;
                    return Some(End::Closed(Err(Error::NotClosed(timeout))));
                }
                Next::Failed(status) => return Some(self.end(Error::from(status))),
                Next::End if self.closing_until.is_some() => return Some(End::Closed(Ok(()))),
                Next::End if self.draining => return Some(End::Drained),
                // With OK, and only so: an end without a status is an error.
                Next::End if self.link.shared.options.until_drained => {
                    return Some(End::Closed(Ok(())));
                }
                Next::End => return Some(self.end(Error::Ended)),
            };
            match response {
                Some(Response::Batch(batch)) => self.batch(batch, closing).await,
                Some(Response::Drain(drain)) => {
                    self.drain(&drain);
                    if leaves && self.closing_until.is_none() {
                        return None;
                    }
                }
                Some(other) => self.note(other),
                // A kind that this version does not know.
                None => {}
            }
        }
    }

    async fn batch(&mut self, batch: v1::Batch, closing: &mut watch::Receiver<bool>) {
        self.useful = true;
        let records = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let counters = &self.link.shared.counters;
        add(&counters.batches, 1);
        add(&counters.records, records);
        let batch = Batch::new(Arc::clone(&self.leg.settler), self.number, batch);
        if self.closing_until.is_some() {
            return batch.discard();
        }
        // The queue fills only if the gateway exceeds the credit, or after the
        // credit was raised; HTTP/2 then holds the gateway back.
        tokio::select! {
            biased;
            permit = self.link.shared.queue.reserve() => match permit {
                Ok(permit) => permit.send(Ok(batch)),
                // The subscriber has been dropped; the wish to close follows.
                Err(_) => batch.discard(),
            },
            () = closed(closing) => batch.discard(),
        }
    }

    fn note(&mut self, response: Response) {
        match response {
            Response::Settled(settled) => self.settled(settled),
            Response::LaneEvent(event) => {
                lane_event::tell(&event);
                if event.kind() == v1::LaneEventKind::Rewound
                    && let Some(first) = event.first_offset
                {
                    self.leg.settler.void(event.lane, first);
                }
            }
            // `Opened` comes first and once; batches are handled elsewhere.
            Response::Ping(_) | Response::Opened(_) | Response::Batch(_) | Response::Drain(_) => {}
        }
    }

    fn drain(&mut self, drain: &v1::Drain) {
        tracing::info!(deadline = ?drain.deadline, gateway = self.leg.gateway, "gateway drains");
        self.link.shared.counters.tell(&Event::Drain {
            gateway: &self.leg.gateway,
            reason: DrainReason::of(drain),
            deadline: drain.deadline.and_then(|it| it.try_into().ok()),
        });
        self.draining = true;
        self.leg.settler.drain();
    }

    fn settled(&self, settled: v1::Settled) {
        let counters = &self.link.shared.counters;
        let confirms = match self.link.shared.options.confirm {
            Confirm::Problems => false,
            Confirm::Applied | Confirm::Durable => true,
        };
        if settled.answers.is_empty() && confirms {
            add(&counters.confirmed, 1);
        }
        let waits = self.leg.settler.waits();
        for answer in settled.answers {
            if let Some(waits) = waits {
                let at = (answer.lane, answer.first_offset, answer.last_offset);
                waits.problem(settled.sequence, at, ProblemKind::from(answer.result));
            }
            let mut problem = Problem {
                topic: String::new(),
                partition: -1,
                first_offset: answer.first_offset,
                last_offset: answer.last_offset,
                kind: ProblemKind::from(answer.result),
                detail: answer.detail,
            };
            self.leg.settler.name_lane(answer.lane, &mut problem);
            tracing::debug!(?problem, "verdict changed nothing");
            counters.problem(problem);
        }
        if let Some(waits) = waits.filter(|_| !settled.more) {
            waits.answered(settled.sequence);
        }
    }

    fn begin_close(&mut self) {
        self.leg.settler.close();
        self.closing_until = Some(Instant::now() + self.link.shared.options.close_timeout);
    }

    fn end(&self, error: Error) -> End {
        if self.closing_until.is_some() {
            return End::Closed(Err(error));
        }
        let lasted = self.begun.elapsed() > self.link.shared.options.retry.max;
        End::Failed {
            error,
            useful: self.useful || lasted,
        }
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each message an allocation"
)]
enum Next {
    Message(v1::SubscribeResponse),
    End,
    Failed(Status),
    Silent(Duration),
    Overdue,
}

/// Waits for the next message, up to the longest silence and the deadline.
async fn next(
    stream: &mut Streaming<v1::SubscribeResponse>,
    silence: Option<Duration>,
    deadline: Option<Instant>,
) -> Next {
    let overdue = async {
        match deadline {
            Some(deadline) => time::sleep_until(deadline).await,
            None => future::pending().await,
        }
    };
    let silent = async {
        match silence {
            Some(silence) => {
                time::sleep(silence).await;
                silence
            }
            None => future::pending().await,
        }
    };
    tokio::select! {
        biased;
        message = stream.message() => match message {
            Ok(Some(message)) => Next::Message(message),
            Ok(None) => Next::End,
            Err(status) => Next::Failed(status),
        },
        () = overdue => Next::Overdue,
        silence = silent => Next::Silent(silence),
    }
}
