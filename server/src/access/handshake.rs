//! Connections become TLS connections.
//!
//! Invariants: a handshake takes at most [`HANDSHAKE_WITHIN`]; at most [`PENDING`] are under
//! way; peers that do not go on with theirs hold up others for at most [`LEAST`], since then
//! the oldest makes room.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::{AbortHandle, JoinHandle, JoinSet},
    time::{self, Instant},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::TcpIncoming;
use tracing::field::display;

use super::Tls;
use crate::telemetry::troubles::{self, Trouble};

/// The longest a handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Handshakes under way at the same time.
const PENDING: usize = 256;

/// Where as many are under way, one that has had this long makes room for the next.
const LEAST: Duration = Duration::from_secs(1);

/// Connections that wait to be served.
const READY: usize = 64;

/// Pause after the system could not give a connection, as without free descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// A peer that was refused may still send; closing at once could destroy the alert that
/// tells it why. It is given this long to read it, and this many bytes to send.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 64 * 1024;

/// A connection, or why there was none.
type Connected = io::Result<TlsStream<TcpStream>>;

/// Connections of a listener that have their handshake behind them.
#[derive(Debug)]
pub(crate) struct Secured {
    ready: mpsc::Receiver<Connected>,
    accepting: JoinHandle<()>,
}

/// Begins to accept connections. Must be called within a tokio runtime.
pub(crate) fn secured(incoming: TcpIncoming, tls: Tls) -> Secured {
    let (to_ready, ready) = mpsc::channel(READY);
    let accepting = tokio::spawn(accept(incoming, tls, to_ready));
    Secured { ready, accepting }
}

impl Stream for Secured {
    type Item = Connected;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(cx)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(mut incoming: TcpIncoming, tls: Tls, ready: mpsc::Sender<Connected>) {
    let mut pending = Pending::default();
    loop {
        pending.room().await;
        let stream = match incoming.next().await {
            None => return,
            Some(Ok(stream)) => stream,
            Some(Err(error)) => {
                // Told by whoever serves. An error says that nothing is served any more.
                let _ended = ready.send(Err(error)).await;
                time::sleep(PAUSE).await;
                continue;
            }
        };
        pending.begin(handshake(stream, tls.clone(), ready.clone()));
    }
}

async fn handshake(stream: TcpStream, tls: Tls, ready: mpsc::Sender<Connected>) {
    let peer = stream.peer_addr().ok();
    let accept = TlsAcceptor::from(tls.current()).accept(stream);
    match time::timeout(HANDSHAKE_WITHIN, accept.into_fallible()).await {
        Ok(Ok(stream)) => {
            // An error says that nothing is served any more.
            let _ended = ready.send(Ok(stream)).await;
        }
        Ok(Err((error, stream))) => {
            told(peer, &error.to_string());
            let _late = time::timeout(FAREWELL, farewell(stream)).await;
        }
        Err(_late) => told(peer, "it took too long"),
    }
}

/// Each is told to whoever looks for it; that there are any, to everybody.
fn told(peer: Option<SocketAddr>, error: &str) {
    let peer = peer.map(display);
    tracing::debug!(peer, error, "no TLS handshake");
    if let Some(count) = troubles::again(Trouble::Handshake) {
        tracing::warn!(peer, error, count, "TLS handshakes fail");
    }
}

/// Lets the peer read why it was refused.
async fn farewell(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut rest = stream.take(FAREWELL_BYTES);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Handshakes under way.
#[derive(Debug, Default)]
struct Pending {
    tasks: JoinSet<()>,
    /// The same and some that have ended, oldest first.
    begun: VecDeque<(Instant, AbortHandle)>,
}

impl Pending {
    fn begin(&mut self, handshake: impl Future<Output = ()> + Send + 'static) {
        if self.begun.len() >= 2 * PENDING {
            self.begun.retain(|(_, task)| !task.is_finished());
        }
        let task = self.tasks.spawn(handshake);
        self.begun.push_back((Instant::now(), task));
    }

    /// Waits until there is room for one more.
    async fn room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            if self.tasks.len() < PENDING {
                return;
            }
            self.begun.retain(|(_, task)| !task.is_finished());
            let Some((begun, oldest)) = self.begun.front() else {
                return;
            };
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = time::sleep_until(*begun + LEAST) => {
                    oldest.abort();
                    self.tasks.join_next().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_room_but_not_at_once() {
        let mut pending = Pending::default();
        let start = Instant::now();
        for _ in 0..PENDING {
            pending.room().await;
            pending.begin(future::pending());
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "there was room for all");
        for _ in 0..PENDING {
            pending.room().await;
            pending.begin(future::pending());
        }
        assert!(start.elapsed() >= LEAST, "{:?}", start.elapsed());
        assert!(start.elapsed() < 2 * LEAST, "{:?}", start.elapsed());
        assert_eq!(pending.tasks.len(), PENDING);
    }

    #[tokio::test(start_paused = true)]
    async fn handshakes_that_end_make_room_at_once_and_are_forgotten() {
        let mut pending = Pending::default();
        let start = Instant::now();
        for _ in 0..10 * PENDING {
            pending.room().await;
            pending.begin(time::sleep(Duration::from_millis(1)));
        }
        assert!(start.elapsed() < LEAST, "{:?}", start.elapsed());
        assert!(
            pending.begun.len() <= 2 * PENDING + 1,
            "{}",
            pending.begun.len()
        );
    }
}
