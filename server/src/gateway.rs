//! The gateway as a whole: which parts it is made of, in which order they start and
//! in which order they stop.
//!
//! **Boundary**: wiring only. Configuration comes in as a value; who asks for the
//! stop is the caller's affair.

mod connections;
mod descriptors;
mod kafka;
mod listener;
mod operators;
mod reflection;
mod unfinished;
mod web;

use std::{
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures::future::OptionFuture;
use tokio::{net::TcpListener, sync::oneshot};

use self::{
    kafka::Kafka,
    listener::{Served, bind, local_addr, note_end, serve},
    operators::AbortOnDrop,
};
use crate::{
    admin,
    broker::{self, Producer},
    config::{Config, Listen, Shutdown},
    consumer::{Budget, Handle, Input},
    health::Health,
    publish::{self, Desk},
    registry::{Closing, Registry},
    session::{Gate, PullLimits, Service},
    telemetry::{
        logs::millis,
        metrics::{Push, Source},
        traces::Traces,
    },
};

/// Time for connections to end once all streams have; a peer that never spoke
/// HTTP/2 would otherwise keep the listener for ever.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(1);

/// Time for the last spans to reach a collector.
const FLUSHED_WITHIN: Duration = Duration::from_secs(3);

/// What the consumer's own drain of lanes may take beyond the stop's deadline.
const LEAVE_MARGIN: Duration = Duration::from_secs(2);

/// Why a gateway could not be built or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("{option} = {address}: {source}")]
    Listen {
        /// Which of the addresses.
        option: &'static str,
        /// As configured.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The client library refuses the settings of a subscription's clients.
    #[error("subscriptions.{subscription}: {source}")]
    Subscription {
        /// The subscription.
        subscription: String,
        /// The library's answer.
        source: broker::Error,
    },
    /// What is configured of the receiver of telemetry cannot be used.
    #[error("telemetry.otlp: {0}")]
    Otlp(String),
    /// The client library refuses the settings of producers of published records.
    #[error("clusters.{cluster}: {source}")]
    Publish {
        /// The cluster.
        cluster: String,
        /// The library's answer.
        source: broker::Error,
    },
}

/// A gateway that is bound and not running yet.
#[derive(Debug)]
pub struct Gateway {
    listen: Listen,
    shutdown: Shutdown,
    listener: TcpListener,
    address: SocketAddr,
    /// Where operators' tools connect, if anywhere.
    admin: Option<TcpListener>,
    gate: Gate,
    registry: Registry,
    desk: Desk,
    health: Health,
    traces: Traces,
    started: Instant,
    metrics: Source,
    /// Sends metrics, if they are sent anywhere.
    push: Option<Push>,
}

impl Gateway {
    /// Binds the listener and starts the subscriptions' drivers. No consumer joins
    /// its group before a subscriber comes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, or a part refuses its settings.
    pub async fn build(config: Config) -> Result<Self, Error> {
        let started = Instant::now();
        let listener = bind("listen.address", config.listen.address).await?;
        let address = local_addr("listen.address", &listener, config.listen.address)?;
        let admin = match config.admin {
            None => None,
            Some(admin) => Some(bind("admin.address", admin.address).await?),
        };
        let traces = Traces::begin(&config.traces, &config.telemetry).map_err(Error::Otlp)?;
        let kafka = Kafka::new(&config, traces.clone());
        for publish in &config.publish {
            kafka.check(publish).map_err(|source| Error::Publish {
                cluster: publish.cluster.clone(),
                source,
            })?;
        }
        let kafka = Arc::new(kafka);
        let names = config.clusters.iter().map(|cluster| cluster.name.clone());
        let make: Arc<dyn publish::Make> = Arc::clone(&kafka) as _;
        let desk = Desk::new(names.collect(), config.publish, &make);
        let registry = Registry::start(
            config.subscriptions,
            config.ad_hoc,
            &config.clusters,
            Budget::new(config.memory_bytes),
            config.health.stalled_after,
            kafka,
        )
        .map_err(|(subscription, source)| Error::Subscription {
            subscription,
            source,
        })?;
        let health = Health::begin(&config.clusters, registry.running());
        let gate = Gate::default();
        let metrics = Source {
            registry: registry.clone(),
            desk: desk.clone(),
            gate: gate.clone(),
            health: health.view(),
            started: SystemTime::now(),
            max_lanes: config.telemetry.max_lanes,
            exports: Arc::default(),
            spans: traces.spans(),
        };
        let push = Push::begin(&config.telemetry, &metrics).map_err(Error::Otlp)?;
        Ok(Self {
            listen: config.listen,
            shutdown: config.shutdown,
            listener,
            address,
            admin,
            gate,
            registry,
            desk,
            health,
            traces,
            started,
            metrics,
            push,
        })
    }

    /// Where the gateway listens; tells the port if 0 was configured.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where operators' tools connect; tells the port if 0 was configured.
    #[must_use]
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
            .as_ref()
            .and_then(|admin| admin.local_addr().ok())
    }

    /// Serves until `stop` resolves, then stops gracefully: refuses new streams,
    /// drains, commits, leaves the groups, flushes the producers, closes. Each phase
    /// is bounded; together at most `shutdown.drain` + `shutdown.close` and a few
    /// seconds.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let Self {
            listen,
            shutdown,
            listener,
            admin,
            gate,
            registry,
            desk,
            health,
            address,
            traces,
            started,
            metrics,
            push,
        } = self;
        descriptors::raise(listen.max_connections);
        let service = Service::new(
            registry.clone(),
            desk.clone(),
            gate.clone(),
            listen.ping_interval,
            PullLimits::of(&listen),
        );
        let (end_connections, connections_end) = oneshot::channel::<()>();
        let served = Served {
            service,
            health: &health,
            grace: shutdown.drain,
        };
        let mut server = serve(&listen, listener, served, connections_end);
        tracing::info!(%address, subscriptions = registry.declared(), "listening");
        listener::tell(&listen);
        let parts = admin::http::Parts {
            registry: registry.clone(),
            started,
            metrics,
            health: health.view(),
            traces: traces.clone(),
        };
        let _operators = admin
            .map(|admin| serve_operators(admin, &parts, address))
            .transpose()?;
        tokio::select! {
            ended = &mut server => {
                note_end(ended);
                return Ok(());
            }
            () = stop => {}
        }
        health.drain();
        gate.close();
        drain(&registry, &desk, &shutdown).await;
        drop(health);
        // Dropped or sent, the receiver resolves either way.
        let _listening = end_connections.send(());
        match tokio::time::timeout(CONNECTIONS_END_WITHIN, &mut server).await {
            Ok(ended) => note_end(ended),
            Err(_elapsed) => {
                tracing::warn!("connections still open after the drain are cut");
                server.abort();
            }
        }
        let pushed = OptionFuture::from(push.map(Push::end));
        tokio::join!(traces.shut_down(FLUSHED_WITHIN), pushed);
        tracing::info!("stopped");
        Ok(())
    }
}

/// Serves operators at `admin`; `address` is the gateway's own.
fn serve_operators(
    admin: TcpListener,
    parts: &admin::http::Parts,
    address: SocketAddr,
) -> Result<AbortOnDrop, Error> {
    let address = local_addr("admin.address", &admin, address)?;
    let serving = operators::serve(admin, parts, address);
    let pages = admin::http::pages_at(address, parts.traces.is_kept());
    tracing::info!(%address, pages, "listening for operators");
    Ok(serving)
}

/// Everything that is out is answered, committed and written, or its time is over.
async fn drain(registry: &Registry, desk: &Desk, shutdown: &Shutdown) {
    tracing::info!(
        limit_ms = millis(shutdown.drain),
        "stopping: refusing new streams, draining"
    );
    let Closing {
        subscriptions,
        producers,
    } = registry.close();
    tokio::join!(
        stop_drivers(subscriptions, shutdown),
        desk.stop(shutdown.drain)
    );
    tokio::join!(
        close_producers(producers, shutdown.close),
        desk.flush(shutdown.close)
    );
}

/// All drivers drain at the same time and leave their groups.
async fn stop_drivers(subscriptions: Vec<(String, Handle)>, shutdown: &Shutdown) {
    let limit = shutdown.drain + shutdown.close + LEAVE_MARGIN;
    let stops = subscriptions
        .into_iter()
        .map(|(name, mut handle)| async move {
            let stopping = async {
                if handle.send(Input::Stop(shutdown.drain)).await.is_ok() {
                    handle.stopped().await;
                }
            };
            if tokio::time::timeout(limit, stopping).await.is_err() {
                tracing::error!(
                    subscription = name,
                    limit_ms = millis(limit),
                    "a subscription did not leave its group in time"
                );
            }
        });
    futures::future::join_all(stops).await;
}

async fn close_producers(producers: Vec<Arc<dyn Producer>>, limit: Duration) {
    let closes = producers.iter().map(|producer| producer.flushed(limit));
    futures::future::join_all(closes).await;
}
