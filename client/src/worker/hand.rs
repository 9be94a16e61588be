//! One delivery while a handler works on it: whatever happens, it is answered once.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::time;
use tracing::Instrument as _;

use super::{
    Message,
    handler::{HandlerError, PANIC, TIMEOUT},
    line::Slot,
};
use crate::{
    Delivery, Order,
    delivery::Origin,
    event::{Event, Verdict},
    settler::{Answer, Run},
};

/// The verdict that a handler owes. Dropped without one, as when its task is cut off, it
/// releases the record.
pub(super) struct Hand {
    origin: Arc<Origin>,
    run: Run,
    attempt: u32,
    answered: bool,
}

/// What became of a delivery.
#[derive(Debug)]
pub(super) struct Done {
    /// Which line it stood in.
    pub(super) slot: Option<Slot>,
    /// Where.
    pub(super) run: Run,
    /// What it was answered.
    pub(super) verdict: Verdict,
    /// Whether a failure makes the gateway go back in the lane.
    pub(super) rewinds: bool,
    /// Why, where that was not the handler's own answer.
    pub(super) trouble: Option<Trouble>,
}

/// A handler that did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Panicked,
    TimedOut,
}

/// Works on a delivery and answers it.
pub(super) async fn work<H, F>(
    handler: Arc<H>,
    delivery: Delivery,
    slot: Option<Slot>,
    timeout: Option<Duration>,
) -> Done
where
    H: Fn(Message) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    let hand = Hand {
        origin: Arc::clone(&delivery.origin),
        run: delivery.run(),
        attempt: delivery.attempt(),
        answered: false,
    };
    let span = delivery.span();
    let message = Message::new(delivery);
    // What a handler leaves behind when it panics is its own: nothing of it is looked at.
    let working =
        AssertUnwindSafe(async move { handler(message).await }.instrument(span)).catch_unwind();
    let worked = match timeout {
        Some(timeout) => time::timeout(timeout, working).await,
        None => Ok(working.await),
    };
    let (result, trouble) = match worked {
        Ok(Ok(result)) => (result, None),
        Ok(Err(panic)) => {
            let said = said(&*panic);
            tracing::error!(panic = said, "handler panicked");
            let failed = HandlerError::failed(PANIC, said, None);
            (Err(failed), Some(Trouble::Panicked))
        }
        Err(_) => {
            let reason = format!("not done within {:?}", timeout.unwrap_or_default());
            let failed = HandlerError::failed(TIMEOUT, reason, None);
            (Err(failed), Some(Trouble::TimedOut))
        }
    };
    let run = hand.run;
    let rewinds = hand.origin.settler.given().order == Some(Order::Lane);
    let verdict = hand.answer(result);
    Done {
        slot,
        run,
        verdict,
        rewinds,
        trouble,
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}

impl Hand {
    fn answer(mut self, result: Result<(), HandlerError>) -> Verdict {
        self.answered = true;
        let settler = &self.origin.settler;
        let verdict = match &result {
            Ok(()) => {
                settler.ack(self.run);
                Verdict::Acked
            }
            Err(HandlerError(answer)) => {
                settler.answer(self.run, answer);
                match answer {
                    Answer::Rejected { .. } => Verdict::Rejected,
                    Answer::Failed { .. } => Verdict::Failed,
                    Answer::Released => Verdict::Released,
                }
            }
        };
        self.tell(verdict);
        verdict
    }

    fn tell(&self, verdict: Verdict) {
        self.origin.settler.counters().tell(&Event::Answered {
            topic: &self.origin.name.topic,
            partition: self.origin.name.partition,
            offset: self.run.first,
            attempt: self.attempt,
            verdict,
        });
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !self.answered {
            self.origin.settler.answer(self.run, &Answer::Released);
            self.tell(Verdict::Released);
        }
    }
}
