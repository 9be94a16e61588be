//! Messages that come in and are not whole yet: how long one may take, and what all of
//! them may hold.
//!
//! **Invariants**: a message that has begun is whole within [`WITHIN`], and so is the request
//! of a call that sends one only; otherwise the call ends. What is kept of unfinished
//! messages above [`SMALL`] stays within [`ROOM`] bytes over all calls: beyond it they are
//! not read, and HTTP/2 flow control reaches the client.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::FutureExt as _;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tokio_util::sync::PollSemaphore;
use tonic::codegen::{Bytes, StdError, http};

use super::listener::MAX_REQUEST_BYTES;
use crate::session::Reason;

/// Time for a message to become whole.
const WITHIN: Duration = Duration::from_secs(60);

/// Messages up to this size take no room: verdicts never wait for records.
const SMALL: usize = 64 * 1024;

/// Bytes of larger messages that may be under way at once.
const ROOM: usize = 256 * 1024 * 1024;

/// A gRPC message begins with a flag and its length.
const PREFIX: usize = 5;

/// Calls whose requests are streams: they may be quiet between messages.
const STREAMS: [&str; 3] = ["/Subscribe", "/Publish", "/ServerReflectionInfo"];

/// The room of unfinished messages. Clones are one.
#[derive(Clone, Debug)]
pub(super) struct Unfinished(Arc<Semaphore>);

impl Unfinished {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }

    /// Bounds what a request may hold, and for how long.
    pub(super) fn bound<B>(&self, request: http::Request<B>) -> http::Request<Bounded<B>> {
        let path = request.uri().path();
        let is_stream = STREAMS.iter().any(|stream| path.ends_with(stream));
        request.map(|body| Bounded::new(body, &self.0, is_stream))
    }
}

/// How far the message is that comes in.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that are there.
    begun: usize,
    /// Bytes of the message, and those that are missing.
    size: usize,
    missing: usize,
    /// Messages that became whole.
    whole: u64,
}

impl Progress {
    fn is_between(&self) -> bool {
        self.begun == 0 && self.missing == 0
    }

    fn advance(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let taken = if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                if self.missing == 0 {
                    self.whole += 1;
                }
                taken
            } else {
                let taken = (PREFIX - self.begun).min(data.len());
                for (place, byte) in self.prefix.iter_mut().skip(self.begun).zip(data) {
                    *place = *byte;
                }
                self.begun += taken;
                if self.begun == PREFIX {
                    let [_, length @ ..] = self.prefix;
                    self.begun = 0;
                    self.size = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                    self.missing = self.size;
                    if self.size == 0 {
                        self.whole += 1;
                    }
                }
                taken
            };
            data = data.get(taken..).unwrap_or_default();
        }
    }

    /// The room that the message needs; what is refused for its size needs none.
    fn room(&self) -> Option<u32> {
        let needs = self.missing > 0 && (SMALL..=MAX_REQUEST_BYTES).contains(&self.size);
        needs.then(|| u32::try_from(self.size).unwrap_or(u32::MAX))
    }
}

/// A request's body within the bounds.
#[derive(Debug)]
pub(super) struct Bounded<B> {
    body: B,
    is_stream: bool,
    progress: Progress,
    /// When the message has to be whole.
    until: Option<Pin<Box<Sleep>>>,
    room: PollSemaphore,
    held: Option<OwnedSemaphorePermit>,
    /// What came of a message that waits for room, and how much that is.
    waiting: Option<(Frame<Bytes>, u32)>,
}

impl<B> Bounded<B> {
    fn new(body: B, room: &Arc<Semaphore>, is_stream: bool) -> Self {
        Self {
            body,
            is_stream,
            progress: Progress::default(),
            until: (!is_stream).then(|| Box::pin(sleep(WITHIN))),
            room: PollSemaphore::new(Arc::clone(room)),
            held: None,
            waiting: None,
        }
    }

    /// Takes note of what came; returns the room that is missing.
    fn note(&mut self, data: &[u8]) -> Option<u32> {
        let before = self.progress.whole;
        self.progress.advance(data);
        if self.progress.whole != before {
            self.held = None;
            if self.is_stream {
                self.until = None;
            }
        }
        if !self.progress.is_between() && self.until.is_none() {
            self.until = Some(Box::pin(sleep(WITHIN)));
        }
        self.progress.room().filter(|_| self.held.is_none())
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        loop {
            if let Some(until) = &mut this.until
                && until.poll_unpin(cx).is_ready()
            {
                let text =
                    format!("a message, or a call's request, was not whole within {WITHIN:?}");
                return Poll::Ready(Some(Err(Reason::RequestTooSlow.status(text).into())));
            }
            if let Some((frame, size)) = this.waiting.take() {
                match this.room.poll_acquire_many(cx, size) {
                    Poll::Ready(permit) => {
                        this.held = permit;
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Poll::Pending => {
                        this.waiting = Some((frame, size));
                        return Poll::Pending;
                    }
                }
            }
            let frame = match std::task::ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => frame,
            };
            let lacks = frame.data_ref().and_then(|data| this.note(data));
            match lacks {
                None => return Poll::Ready(Some(Ok(frame))),
                Some(size) => this.waiting = Some((frame, size)),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
