//! [`Plain`]: a connection without TLS, which notices when the other side speaks TLS.
//!
//! Boundary: looks at the first byte that comes, and at nothing else.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// What follows the address in a text about this.
const SPEAKS_TLS: &str = " speaks TLS: ";

/// The kinds of records with which a side of TLS can begin: an alert, and a handshake. No
/// frame of HTTP/2 that comes first begins so: it would have more than a megabyte.
const TLS_RECORDS: [u8; 2] = [21, 22];

/// Whether a gateway has answered in TLS to what was not. Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answered(Arc<AtomicBool>);

impl Answered {
    /// Whether it has.
    pub(crate) fn in_tls(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The gateway speaks TLS, and was called without.
#[derive(Debug)]
pub(crate) struct SpeaksTls {
    /// Its address as it was given.
    pub(crate) address: String,
}

impl fmt::Display for SpeaksTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        write!(
            f,
            "{address}{SPEAKS_TLS}its address must begin with https://, or TLS be set up"
        )
    }
}

impl std::error::Error for SpeaksTls {}

impl SpeaksTls {
    /// The words of it in those of a call for which the channel was not ready.
    pub(crate) fn told(message: &str) -> Option<String> {
        let told = message.strip_prefix("Service was not ready: ")?;
        told.contains(SPEAKS_TLS).then(|| told.to_owned())
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Plain {
    stream: TcpStream,
    /// Where to note an answer in TLS, until the first byte has come; `None` also where TLS
    /// is spoken over the connection.
    unheard: Option<Answered>,
}

impl Plain {
    /// Without `answered` nothing is looked at.
    pub(crate) const fn new(stream: TcpStream, answered: Option<Answered>) -> Self {
        Self {
            stream,
            unheard: answered,
        }
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if let Some(first) = buf.filled().get(before)
            && let Some(answered) = self.unheard.take()
            && TLS_RECORDS.contains(first)
        {
            answered.0.store(true, Relaxed);
            // A read that fails has read nothing.
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::from(io::ErrorKind::InvalidData)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// What is read of a peer that begins with these bytes, and whether it spoke TLS.
    async fn read(bytes: &[u8], looks: bool) -> (io::Result<Vec<u8>>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap());
        let (stream, accepted) = tokio::join!(stream, listener.accept());
        let (mut peer, _) = accepted.unwrap();
        peer.write_all(bytes).await.unwrap();
        drop(peer);
        let answered = Answered::default();
        let mut plain = Plain::new(stream.unwrap(), looks.then(|| answered.clone()));
        let mut found = Vec::new();
        let read = plain.read_to_end(&mut found).await;
        (read.map(|_| found), answered.in_tls())
    }

    #[tokio::test]
    async fn only_a_first_byte_of_tls_is_one() {
        for tls in [&[21_u8, 3, 3, 0, 2, 2, 50][..], &[22, 3, 1], &[21]] {
            let (read, in_tls) = read(tls, true).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert!(in_tls, "{tls:?}");
        }
        for plain in [&[0_u8, 0, 18, 4, 0, 22, 21][..], b"HTTP/1.1 400", b""] {
            assert!(matches!(read(plain, true).await, (Ok(found), false) if found == plain));
        }
        let over = [22_u8, 3, 1];
        assert!(matches!(read(&over, false).await, (Ok(found), false) if found == over));
    }
}
