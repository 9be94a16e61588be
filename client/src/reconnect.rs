//! Runs one session after the other until the subscriber closes, an error comes
//! that trying again does not help, or the retries are used up.

use std::time::Duration;

use backon::ExponentialBackoff;
use tokio::{sync::oneshot, time};

use crate::{
    Error,
    session::{self, Context, End},
};

/// Longest wait that a gateway can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Told once: the first session is open, or there will be none.
type Ready = oneshot::Sender<Result<(), Error>>;

/// Keeps the subscriber subscribed. Returns what became of the goodbye.
pub(crate) async fn run(context: Context, ready: Ready) -> Result<(), Error> {
    let result = keep(&context, ready).await;
    // Nothing is gone on with: what is still in hand does not count any more.
    context.settler.end(false);
    result
}

async fn keep(context: &Context, ready: Ready) -> Result<(), Error> {
    let mut ready = Some(ready);
    let mut tries = Tries::new(context);
    loop {
        let mut was_open = false;
        let opened = || {
            was_open = true;
            tell(&mut ready, Ok(()));
        };
        let end = session::run(context, opened).await;
        let delay = match end {
            End::Closed(result) => return result,
            End::Drained => tries.after_success(),
            End::Failed { error, .. } if !error.is_retryable() => {
                return give_up(context, &mut ready, error).await;
            }
            End::Failed { error, useful } => match tries.after_failure(&error, useful) {
                Some(delay) => {
                    tries.note(&error, delay, was_open);
                    delay
                }
                None => {
                    let (retries, last) = (tries.failures, Box::new(error));
                    let error = Error::GaveUp { retries, last };
                    return give_up(context, &mut ready, error).await;
                }
            },
        };
        let mut closing = context.closing.clone();
        tokio::select! {
            () = session::closed(&mut closing) => return Ok(()),
            () = time::sleep(delay) => {}
        }
    }
}

/// Hands `error` to whoever waits: `connect`, or the next poll of the stream.
async fn give_up(context: &Context, ready: &mut Option<Ready>, error: Error) -> Result<(), Error> {
    // Nothing is gone on with: what is in hand does not count any more.
    context.settler.end(false);
    if ready.is_some() {
        tell(ready, Err(error));
        return Ok(());
    }
    let mut closing = context.closing.clone();
    tokio::select! {
        // Only a subscriber that is gone does not take it.
        _ = context.queue.send(Err(error)) => {}
        () = session::closed(&mut closing) => {}
    }
    Ok(())
}

fn tell(ready: &mut Option<Ready>, result: Result<(), Error>) {
    if let Some(ready) = ready.take() {
        // A dropped receiver means that `connect` was cancelled, which also
        // drops the wish to go on.
        drop(ready.send(result));
    }
}

/// Counts failures in a row and spaces them out.
struct Tries<'a> {
    context: &'a Context,
    delays: ExponentialBackoff,
    failures: u32,
    /// What the last one was, as it was logged: a refusal that goes on is told once.
    noted: String,
}

impl<'a> Tries<'a> {
    fn new(context: &'a Context) -> Self {
        Self {
            context,
            delays: context.options.delays(),
            failures: 0,
            noted: String::new(),
        }
    }

    fn after_success(&mut self) -> Duration {
        self.delays = self.context.options.delays();
        self.failures = 0;
        self.delay()
    }

    fn after_failure(&mut self, error: &Error, useful: bool) -> Option<Duration> {
        if useful {
            self.after_success();
        }
        if self
            .context
            .options
            .max_retries
            .is_some_and(|max| self.failures >= max)
        {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
        Some(self.delay().max(asked))
    }

    /// Logs why there is another try.
    fn note(&mut self, error: &Error, delay: Duration, was_open: bool) {
        let error = error.to_string();
        if was_open {
            tracing::warn!(error, ?delay, "stream lost, connecting again");
        } else if error == self.noted {
            tracing::debug!(error, ?delay, "still not subscribed, trying again");
        } else {
            tracing::warn!(error, ?delay, "not subscribed, trying again");
        }
        self.noted = error;
    }

    fn delay(&mut self) -> Duration {
        self.delays
            .next()
            .unwrap_or(self.context.options.backoff_max)
    }
}
