//! What a handler is given and what it returns: [`Message`] and [`HandlerError`].

use std::{error::Error as StdError, fmt, ops::Deref, time::Duration};

use crate::{Delivery, error::chain, settler::Answer};

/// The code of a failed verdict whose handler returned an error of its own kind.
pub(super) const HANDLER: &str = "handler";

/// The code of a failed verdict whose handler panicked.
pub(super) const PANIC: &str = "handler-panic";

/// The code of a failed verdict whose handler took too long.
pub(super) const TIMEOUT: &str = "handler-timeout";

/// A record for a handler to work on. It reads as the [`Delivery`] does; the
/// [`Worker`](crate::Worker) gives the verdict, by what the handler returns.
pub struct Message(Delivery);

impl Message {
    /// The delivery, whose verdict somebody else gives.
    pub(super) fn new(mut delivery: Delivery) -> Self {
        delivery.answered = true;
        Self(delivery)
    }
}

impl Deref for Message {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.0
    }
}

impl fmt::Debug for Message {
    /// Without key, value and headers: they do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a handler did not do its work, and so which verdict the record gets.
///
/// Any error becomes a failed verdict with code `handler` by itself, with `?`; the others
/// are asked for:
///
/// ```
/// use ackgate_client::{HandlerError, Message};
///
/// async fn handle(message: Message) -> Result<(), HandlerError> {
///     let Some(value) = message.value() else {
///         return Err(HandlerError::reject("empty", "an order has a value"));
///     };
///     let text = str::from_utf8(value)
///         .map_err(|error| HandlerError::reject("not-text", error.to_string()))?;
///     let amount: u64 = text.parse()?; // failed: it comes again
///     println!("{amount}");
///     Ok(())
/// }
/// ```
///
/// It is no [`std::error::Error`] itself, so that every one of those can become it.
#[derive(Debug)]
pub struct HandlerError(pub(super) Answer);

impl HandlerError {
    /// Refuses the record for good; see [`Delivery::reject`].
    pub fn reject(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self(Answer::Rejected {
            code: code.into(),
            reason: reason.into(),
        })
    }

    /// Says that it did not work this time; see [`Delivery::fail`].
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::failed(HANDLER, reason, None)
    }

    /// As [`fail`](Self::fail), with a code and not again before `retry_after`; see
    /// [`Delivery::fail_after`].
    pub fn fail_after(
        code: impl Into<String>,
        reason: impl Into<String>,
        retry_after: Duration,
    ) -> Self {
        Self::failed(code, reason, Some(retry_after))
    }

    /// Gives the record back as not started; see [`Delivery::release`].
    #[must_use]
    pub const fn release() -> Self {
        Self(Answer::Released)
    }

    /// A failed verdict for an error that is already in a box, such as `anyhow`'s.
    pub fn of(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        Self::fail(chain(&*error))
    }

    pub(super) fn failed(
        code: impl Into<String>,
        reason: impl Into<String>,
        retry_after: Option<Duration>,
    ) -> Self {
        Self(Answer::Failed {
            code: code.into(),
            reason: reason.into(),
            retry_after,
        })
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    /// Failed, with code `handler` and the error and its causes as the reason.
    fn from(error: E) -> Self {
        Self::fail(chain(&error))
    }
}
