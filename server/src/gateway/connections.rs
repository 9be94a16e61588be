//! Connections: taken one by one, each served until it ends, has grown old, or the
//! gateway stops.
//!
//! **Boundary**: sockets and their lives. What is served on them, and with which HTTP/2
//! settings, comes in.
//!
//! Each connection has a server of its own. The library's one server for all of them knows
//! one age for all, so that those which came together would go together; it cuts without
//! a word where it is told to cut; and it runs in circles when there are no descriptors.

mod guarded;
mod places;

use std::{io, time::Duration};

use futures::{Stream, StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    body::Body,
    codegen::http,
    service::Routes,
    transport::server::{Connected, Server},
};
use tower::util::MapRequestLayer;

use self::{
    guarded::Guarded,
    places::{Place, Places},
};
use crate::{
    session::Age,
    telemetry::troubles::{self, Trouble},
};

/// Wait after an accept for which the system had no means: descriptors or memory.
const NO_MEANS_WAIT: Duration = Duration::from_millis(100);

/// How much of its age a connection may live less or more, so that those which came
/// together do not go together.
const SPREAD: f64 = 0.1;

/// How long before its streams the peer of an aged connection is told to go, so that what
/// connects again does not come back on it.
const GOES_FIRST: Duration = Duration::from_millis(100);

/// Time beyond the grace for the last words of streams to be taken; then an aged
/// connection is cut.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What bounds connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How old a connection may become, more or less.
    pub(super) age: Option<Duration>,
    /// Time for the streams of an aged connection to end.
    pub(super) grace: Duration,
    /// Connections at one time.
    pub(super) connections: usize,
    /// Whether, when there are as many, the one that is quiet longest makes room for the
    /// next one; otherwise that is closed at once.
    pub(super) make_room: bool,
    /// What that number is called.
    pub(super) bound: &'static str,
}

/// What is served on each connection.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    /// The settings.
    pub(super) server: Server,
    /// What is called, and what every call passes.
    pub(super) routes: Routes,
}

/// Takes connections until `stop`; then ends those there are and waits for them.
/// Dropping it cuts them.
pub(super) async fn run<IO>(
    incoming: impl Stream<Item = io::Result<IO>>,
    serving: Serving,
    limits: Limits,
    stop: impl Future<Output = ()>,
) where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let mut places = Places::new(limits.connections, limits.make_room);
    let (ending, cutting) = (CancellationToken::new(), CancellationToken::new());
    let _cut = cutting.clone().drop_guard();
    let tasks = TaskTracker::new();
    {
        // Dropped with the end of accepting: others may listen there then.
        tokio::pin!(incoming, stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = incoming.next() => accepted,
            };
            match accepted {
                None => break,
                Some(Ok(connection)) => {
                    let cutting = cutting.child_token();
                    let mut place = places.take(&cutting);
                    if place.is_none() {
                        tell_of_limit(&limits);
                        place = places.take_over(&cutting).await;
                    }
                    if let Some(place) = place {
                        let life = Life {
                            ending: ending.clone(),
                            cutting,
                            place,
                        };
                        tasks.spawn(life.lead(connection, serving.clone(), limits));
                    }
                }
                Some(Err(error)) if is_want(&error) => {
                    if let Some(count) = troubles::again(Trouble::Means) {
                        tracing::error!(%error, count, "no connection can be taken");
                    }
                    tokio::select! {
                        () = &mut stop => break,
                        () = sleep(NO_MEANS_WAIT) => {}
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, "a connection was not taken"),
            }
        }
    }
    ending.cancel();
    tasks.close();
    tasks.wait().await;
}

/// Says that as many connections are open as may be, and what becomes of them.
fn tell_of_limit(limits: &Limits) {
    let Some(count) = troubles::again(Trouble::Connections) else {
        return;
    };
    let (limit, detail) = (limits.connections, limits.bound);
    if limits.make_room {
        tracing::warn!(
            limit,
            detail,
            count,
            "quiet connections make room for others: as many are open as may be"
        );
    } else {
        tracing::warn!(
            limit,
            detail,
            count,
            "connections are closed at once: as many are open as may be"
        );
    }
}

/// What a connection lives by.
#[derive(Debug)]
struct Life {
    /// The gateway stops.
    ending: CancellationToken,
    /// Nothing more is read.
    cutting: CancellationToken,
    place: Place,
}

impl Life {
    async fn lead<IO>(self, connection: IO, serving: Serving, limits: Limits)
    where
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let gone = CancellationToken::new();
        let connection = Guarded::new(connection, self.cutting.clone(), gone.clone())
            .tells(self.place.moved.clone());
        let (old, aged) = (CancellationToken::new(), CancellationToken::new());
        let lifetime = limits.age.map(spread);
        let age = lifetime.map(|_| Age::new(aged.clone(), limits.grace));
        let end = async {
            tokio::select! {
                () = self.ending.cancelled() => {}
                () = gone.cancelled() => {}
                () = after(lifetime) => {
                    tracing::debug!("a connection is as old as it may become");
                    old.cancel();
                }
            }
        };
        let overdue = async {
            old.cancelled().await;
            sleep(GOES_FIRST).await;
            aged.cancel();
            sleep(limits.grace.saturating_add(LAST_WORDS)).await;
            self.cutting.cancel();
            // Its socket ends with an error, and then the connection.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = serve(connection, serving, age, end) => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection was not served");
                }
            }
            () = overdue => {}
        }
    }
}

/// Serves one connection until it ends; from `end` on it is asked to.
async fn serve<IO>(
    connection: Guarded<IO>,
    serving: Serving,
    age: Option<Age>,
    end: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error>
where
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let Serving { server, routes } = serving;
    // The end of what comes in would count as the wish to end.
    let only = stream::iter([Ok::<_, io::Error>(connection)]).chain(stream::pending());
    let with_age = MapRequestLayer::new(move |mut request: http::Request<Body>| {
        if let Some(age) = &age {
            request.extensions_mut().insert(age.clone());
        }
        request
    });
    let router = server.layer(with_age).add_routes(routes);
    router.serve_with_incoming_shutdown(only, end).await
}

/// A time not far from `age`.
fn spread(age: Duration) -> Duration {
    age.mul_f64(1.0 + SPREAD * (2.0 * fastrand::f64() - 1.0))
}

/// Resolves after that time, or never.
async fn after(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Whether the system has no means for another connection: the next try would fail too.
fn is_want(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    wants
        .map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests;
