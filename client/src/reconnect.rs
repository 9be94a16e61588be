//! Runs one session after the other until the subscriber closes, an error comes
//! that trying again does not help, or the retries are used up.

use tokio::{sync::oneshot, time};

use crate::{
    Error,
    event::Event,
    session::{self, Context, End},
    tries::Tries,
};

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
    let mut tries = Tries::new(context.options.retry, "subscriber");
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
                    context.counters.tell(&Event::Disconnected {
                        gateway: &context.options.address,
                        error: &error,
                        retry_in: delay,
                    });
                    delay
                }
                None => {
                    let error = tries.gave_up(error);
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
