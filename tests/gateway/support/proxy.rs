//! A network between a subscriber and its gateway that can break.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::broadcast,
};

/// How connections break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Both ends are told.
    Cut,
    /// Nobody is told: what comes is swallowed.
    Deaf,
}

/// Passes connections on until it is told to break those that there are; later ones
/// pass again.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    breaks: broadcast::Sender<Break>,
    taken: Arc<AtomicUsize>,
}

impl Proxy {
    /// Begins to pass connections on to `target`.
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (breaks, _) = broadcast::channel(4);
        let each = breaks.clone();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(pass(near, target, each.subscribe()));
            }
        });
        Self {
            address,
            breaks,
            taken,
        }
    }

    /// How many connections it has taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.breaks.send(Break::Cut).expect("there are connections");
    }

    /// Swallows from here on whatever comes on the connections that there are.
    pub(crate) fn fall_deaf(&self) {
        self.breaks
            .send(Break::Deaf)
            .expect("there are connections");
    }
}

async fn pass(mut near: TcpStream, target: SocketAddr, mut breaks: broadcast::Receiver<Break>) {
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    let broken = tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => return,
        broken = breaks.recv() => broken,
    };
    if broken == Ok(Break::Deaf) {
        tokio::join!(swallow(near), swallow(far));
    } else {
        near.shutdown().await.ok();
        far.shutdown().await.ok();
    }
}

/// Reads until the other side gives up, and says nothing.
async fn swallow(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
}
