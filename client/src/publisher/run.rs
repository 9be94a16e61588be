//! Runs one stream after the other until the publisher is closed, an error comes that
//! trying again does not help, or the retries are used up.

use std::sync::Arc;

use tokio::{sync::oneshot, time};

use super::{
    ledger::Ledger,
    session::{self, Context, End},
};
use crate::{Error, tries::Tries};

/// Told once: the first stream is open, or there will be none.
type Opened = oneshot::Sender<Result<(), Error>>;

/// Answers what has no answer when the runtime ends before the publisher does.
struct Last(Arc<Ledger>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end(Some(Error::Ended));
    }
}

/// Keeps a stream open while there is anything to write.
pub(super) async fn run(context: Context, opened: Opened) {
    let last = Last(Arc::clone(&context.ledger));
    let mut opened = Some(opened);
    let error = keep(&context, &mut opened).await;
    match (error, opened.take()) {
        (Some(error), Some(opened)) => {
            context.ledger.end(None);
            // Nobody is left to be told if `connect` was cancelled.
            drop(opened.send(Err(error)));
        }
        (Some(error), None) => {
            tracing::warn!(%error, "the publisher ends");
            context.ledger.end(Some(error));
        }
        (None, _) => context.ledger.end(None),
    }
    drop(last);
}

async fn keep(context: &Context, opened: &mut Option<Opened>) -> Option<Error> {
    let ledger = &context.ledger;
    let send_again = context.options.sends_again();
    let mut tries = Tries::new(context.options.retry(), "publisher");
    loop {
        let mut was_open = false;
        let note_open = || {
            was_open = true;
            if let Some(opened) = opened.take() {
                drop(opened.send(Ok(())));
            }
        };
        let delay = match session::run(context, note_open).await {
            End::Closed => return None,
            End::Overdue => return ledger.closing().map(|it| Error::NotClosed(it.timeout)),
            End::Drained => {
                ledger.broke(send_again, "the gateway stopped");
                tries.after_success()
            }
            End::Failed { error, .. } if !error.is_retryable() => return Some(error),
            End::Failed { error, useful } => {
                ledger.broke(send_again, &error.to_string());
                match tries.after_failure(&error, useful) {
                    Some(delay) => {
                        tries.note(&error, delay, was_open);
                        delay
                    }
                    None => return Some(tries.gave_up(error)),
                }
            }
        };
        tokio::select! {
            biased;
            end = session::idle(ledger) => {
                return match end {
                    End::Overdue => ledger.closing().map(|it| Error::NotClosed(it.timeout)),
                    End::Closed | End::Drained | End::Failed { .. } => None,
                };
            }
            () = time::sleep(delay) => {}
        }
    }
}
