//! When the answer to a `Pull` begins to leave: from then on its records are handed over, and
//! those of one that is dropped before never were.
//!
//! HTTP/2 asks for the next piece of a body before the caller's window has room for it. So
//! the message goes out in two pieces, its prefix and the rest: asked for the second one, the
//! first has found room.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tonic::codegen::{Bytes, StdError, http};

use crate::session::Reason;

/// A gRPC message begins with a flag and its length.
const PREFIX: usize = 5;

/// Tells the session's keeper that the answer leaves; dropped, it never did. Travels with
/// the response to where its body is written.
#[derive(Clone, Debug)]
pub(super) struct Receipt(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Receipt {
    pub(super) fn new(to: oneshot::Sender<()>) -> Self {
        Self(Arc::new(Mutex::new(Some(to))))
    }

    /// Whether the records are the caller's: the keeper may have given up meanwhile, and
    /// they may be somebody else's.
    fn claim(&self) -> bool {
        let to = self.0.lock().take();
        to.is_some_and(|to| to.send(()).is_ok())
    }
}

/// Has the response tell when it leaves, if it is one that is waited for.
pub(crate) fn with_receipt<B>(mut response: http::Response<B>) -> http::Response<Leaving<B>> {
    let receipt = response.extensions_mut().remove::<Receipt>();
    response.map(|body| Leaving {
        body,
        receipt,
        rest: None,
        has_begun: false,
    })
}

/// The body of a response that tells when it leaves.
#[derive(Debug, Default)]
pub(crate) struct Leaving<B> {
    body: B,
    receipt: Option<Receipt>,
    /// What of a piece has not been asked for.
    rest: Option<Bytes>,
    has_begun: bool,
}

impl<B> Leaving<B> {
    /// The next piece of the message, in two if it is the first one.
    fn data(&mut self, mut data: Bytes) -> Result<Frame<Bytes>, StdError> {
        if self.receipt.is_some() && !self.has_begun {
            self.has_begun = true;
            let prefix = data.split_to(PREFIX.min(data.len()));
            self.rest = Some(data).filter(|rest| !rest.is_empty());
            return Ok(Frame::data(prefix));
        }
        self.claim()?;
        Ok(Frame::data(data))
    }

    fn claim(&mut self) -> Result<(), StdError> {
        match self.receipt.take() {
            Some(receipt) if !receipt.claim() => {
                let text = "the answer was not read in time; its records are with others again";
                Err(Reason::NotReading.status(text).into())
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl<B> Body for Leaving<B>
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
        if let Some(rest) = this.rest.take() {
            return Poll::Ready(Some(this.data(rest)));
        }
        let frame = match std::task::ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => frame,
        };
        Poll::Ready(Some(match frame.into_data() {
            Ok(data) => this.data(data),
            // Trailers: a message without a rest has left, a refusal had none.
            Err(frame) if this.has_begun => this.claim().map(|()| frame),
            Err(frame) => Ok(frame),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures::future::poll_fn;

    use super::*;

    /// A body of these pieces.
    struct Pieces(VecDeque<Frame<Bytes>>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = StdError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    fn answer() -> (Leaving<Pieces>, oneshot::Receiver<()>) {
        let (to, told) = oneshot::channel();
        let message = Bytes::from_static(b"\0\0\0\0\x03abc");
        let trailers = Frame::trailers(http::HeaderMap::new());
        let pieces = Pieces(VecDeque::from([Frame::data(message), trailers]));
        let mut response = http::Response::new(pieces);
        response.extensions_mut().insert(Receipt::new(to));
        (with_receipt(response).into_body(), told)
    }

    async fn next(body: &mut Leaving<Pieces>) -> Option<Result<Frame<Bytes>, StdError>> {
        poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
    }

    #[tokio::test]
    async fn answer_is_handed_over_once_its_second_piece_is_asked_for() {
        let (mut body, mut told) = answer();
        let piece = next(&mut body).await.unwrap().unwrap();
        assert_eq!(piece.data_ref().unwrap(), &b"\0\0\0\0\x03"[..]);
        assert!(!body.is_end_stream());
        assert!(told.try_recv().is_err(), "the caller may have no window");
        let piece = next(&mut body).await.unwrap().unwrap();
        assert_eq!(piece.data_ref().unwrap(), &b"abc"[..]);
        told.try_recv().expect("it leaves");
        assert!(next(&mut body).await.unwrap().unwrap().is_trailers());
        assert!(next(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn answer_whose_caller_goes_was_never_handed_over() {
        let (mut body, told) = answer();
        let _prefix = next(&mut body).await;
        drop(body);
        assert!(told.await.is_err());
    }

    #[tokio::test]
    async fn answer_that_was_given_up_does_not_leave() {
        let (mut body, told) = answer();
        let _prefix = next(&mut body).await;
        drop(told);
        let error = next(&mut body).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("not read in time"), "{error}");
    }
}
