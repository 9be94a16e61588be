//! A socket that tells when it is let go of, can be cut, and does not wait for ever for a
//! peer that says nothing.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use super::places::Moved;

/// Time for a peer to begin to speak. Before that no pings tell whether it is there.
const SPEAKS_WITHIN: Duration = Duration::from_secs(20);

/// What HTTP/2 begins with has so many bytes, and no request of HTTP/1 has fewer.
const FIRST_WORDS: usize = 24;

/// A peer that has not begun to speak.
#[derive(Debug)]
struct Silent {
    until: Pin<Box<Sleep>>,
    missing: usize,
}

/// See the file's head.
#[derive(Debug)]
pub(in crate::gateway) struct Guarded<IO> {
    io: IO,
    silent: Option<Silent>,
    moved: Option<Arc<Moved>>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    #[allow(dead_code, reason = "held for its drop")]
    gone: DropGuard,
}

impl<IO> Guarded<IO> {
    /// Guards a socket: `cut` ends it, and `gone` is told of its end.
    pub(super) fn new(io: IO, cut: CancellationToken, gone: CancellationToken) -> Self {
        Self {
            io,
            silent: Some(Silent {
                until: Box::pin(sleep(SPEAKS_WITHIN)),
                missing: FIRST_WORDS,
            }),
            moved: None,
            cut: Box::pin(cut.cancelled_owned()),
            gone: gone.drop_guard(),
        }
    }

    /// Tells `moved` of all that comes in or goes out.
    pub(super) fn tells(self, moved: Option<Arc<Moved>>) -> Self {
        Self { moved, ..self }
    }

    /// Whether it goes on. Asked wherever a connection may wait for its peer: one that has
    /// an answer to write does not read.
    fn goes_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.poll_unpin(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// What was written.
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(moved), Poll::Ready(Ok(1..))) = (&self.moved, &written) {
            moved.now();
        }
        written
    }
}

impl<IO: Connected> Connected for Guarded<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Guarded<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.goes_on(cx)?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let said = buf.filled().len().saturating_sub(before);
        if let Some(moved) = self.moved.as_ref().filter(|_| said > 0) {
            moved.now();
        }
        if let Some(silent) = &mut self.silent {
            silent.missing = silent.missing.saturating_sub(said);
            if silent.missing == 0 {
                self.silent = None;
            } else if silent.until.poll_unpin(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Guarded<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.goes_on(cx)?;
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.goes_on(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.goes_on(cx)?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.goes_on(cx)?;
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn guarded() -> (
        Guarded<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
        [CancellationToken; 2],
    ) {
        let (near, far) = duplex(64);
        let (cut, gone) = (CancellationToken::new(), CancellationToken::new());
        (
            Guarded::new(near, cut.clone(), gone.clone()),
            far,
            [cut, gone],
        )
    }

    #[tokio::test(start_paused = true)]
    async fn peer_that_says_too_little_is_given_up_and_one_that_spoke_is_not() {
        let (mut near, mut far, _tokens) = guarded();
        far.write_all(&[1; FIRST_WORDS - 1]).await.unwrap();
        let mut bytes = [0; 64];
        assert_eq!(near.read(&mut bytes).await.unwrap(), FIRST_WORDS - 1);
        let error = near.read(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let (mut near, mut far, _tokens) = guarded();
        far.write_all(&[1; FIRST_WORDS]).await.unwrap();
        assert_eq!(near.read(&mut bytes).await.unwrap(), FIRST_WORDS);
        let more = tokio::time::timeout(SPEAKS_WITHIN * 10, near.read(&mut bytes)).await;
        assert!(more.is_err(), "{more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn cut_wakes_a_write_that_nobody_reads() {
        let (mut near, _far, [cut, _gone]) = guarded();
        let writes = tokio::time::timeout(SPEAKS_WITHIN, near.write_all(&[0; 65]));
        let (written, ()) = tokio::join!(writes, async { cut.cancel() });
        let error = written.expect("it is woken").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[tokio::test]
    async fn cut_wakes_a_read_and_the_end_is_told() {
        let (mut near, _far, [cut, gone]) = guarded();
        let mut bytes = [0; 8];
        let (read, ()) = tokio::join!(near.read(&mut bytes), async { cut.cancel() });
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        assert!(!gone.is_cancelled());
        drop(near);
        assert!(gone.is_cancelled());
    }
}
