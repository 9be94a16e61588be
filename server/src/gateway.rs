//! The gateway as a whole: which parts it is made of, in which order they start and
//! in which order they stop.
//!
//! **Boundary**: wiring only. Configuration comes in as a value; who asks for the
//! stop is the caller's affair.

mod kafka;

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use ackgate_proto::server::{
    admin_service_server::AdminServiceServer, gateway_service_server::GatewayServiceServer,
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use tonic::transport::{Server, server::TcpIncoming};
use tower::util::MapResponseLayer;

use self::kafka::Kafka;
use crate::{
    admin::Admin,
    broker::{self, Producer},
    config::{Config, Listen, Shutdown},
    consumer::{Budget, Handle, Input},
    publish::{self, Desk},
    registry::{Closing, Registry},
    session::{Gate, Service, with_reason},
};

/// Largest message a subscriber may send: 10,000 verdicts, each with a code and a
/// reason at their limits.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// What a subscriber sends is small: windows of 1 MiB never limit verdicts.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// Streams whose windows fit into that of their connection. A publisher's stream that is
/// not read for a while keeps its window full; with more of them than this on one
/// connection, the other streams of that connection wait too.
const WINDOWS: u32 = 32;

/// Time for connections to end once all streams have; a peer that never spoke
/// HTTP/2 would otherwise keep the listener for ever.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(1);

/// The longest an operator's call may take, and how many one connection may have.
const OPERATORS_WAIT: Duration = Duration::from_secs(30);
const OPERATORS_CALLS: usize = 16;

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
    /// The client library refuses the settings of producers of published records.
    #[error("clusters.{cluster}: {source}")]
    Publish {
        /// The cluster.
        cluster: String,
        /// The library's answer.
        source: broker::Error,
    },
    /// The listener failed.
    #[error("the gRPC listener failed: {0}")]
    Serve(#[from] tonic::transport::Error),
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
}

impl Gateway {
    /// Binds the listener and starts the subscriptions' drivers. No consumer joins
    /// its group before a subscriber comes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, or a part refuses its settings.
    pub async fn build(config: Config) -> Result<Self, Error> {
        let listener = bind("listen.address", config.listen.address).await?;
        let address = local_addr("listen.address", &listener, config.listen.address)?;
        let admin = match config.admin {
            None => None,
            Some(admin) => Some(bind("admin.address", admin.address).await?),
        };
        let kafka = Kafka::new(&config);
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
            kafka,
        )
        .map_err(|(subscription, source)| Error::Subscription {
            subscription,
            source,
        })?;
        Ok(Self {
            listen: config.listen,
            shutdown: config.shutdown,
            listener,
            address,
            admin,
            gate: Gate::default(),
            registry,
            desk,
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
        let admin_address = self.admin_addr();
        let Self {
            listen,
            shutdown,
            listener,
            admin,
            gate,
            registry,
            desk,
            address,
        } = self;
        let interval = listen.ping_interval;
        let service = Service::new(registry.clone(), desk.clone(), gate.clone(), interval);
        let (end_connections, connections_end) = oneshot::channel::<()>();
        let mut server = serve(&listen, listener, service, connections_end);
        tracing::info!(%address, subscriptions = registry.declared(), "listening");
        let _admin = admin.map(|admin| serve_operators(admin, registry.clone()));
        if let Some(address) = admin_address {
            tracing::info!(%address, "listening for operators");
        }
        tokio::select! {
            ended = &mut server => return flatten(ended),
            () = stop => {}
        }
        tracing::info!(
            "stopping: refusing new streams, draining for {:?}",
            shutdown.drain
        );
        gate.close();
        let Closing {
            subscriptions,
            producers,
        } = registry.close();
        tokio::join!(
            stop_drivers(subscriptions, &shutdown),
            desk.stop(shutdown.drain)
        );
        tokio::join!(
            close_producers(producers, shutdown.close),
            desk.flush(shutdown.close)
        );
        // Dropped or sent, the receiver resolves either way.
        let _listening = end_connections.send(());
        match tokio::time::timeout(CONNECTIONS_END_WITHIN, &mut server).await {
            Ok(ended) => flatten(ended)?,
            Err(_elapsed) => {
                tracing::warn!("connections still open after the drain are cut");
                server.abort();
            }
        }
        tracing::info!("stopped");
        Ok(())
    }
}

async fn bind(option: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| Error::Listen {
        option,
        address,
        source,
    })
}

fn local_addr(
    option: &'static str,
    listener: &TcpListener,
    address: SocketAddr,
) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|source| Error::Listen {
        option,
        address,
        source,
    })
}

/// Operators are served until the gateway has stopped: also while it drains they may
/// want to see what is left.
fn serve_operators(listener: TcpListener, registry: Registry) -> AbortOnDrop {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = AdminServiceServer::new(Admin::new(registry));
    let serving = Server::builder()
        .timeout(OPERATORS_WAIT)
        .concurrency_limit_per_connection(OPERATORS_CALLS)
        .add_service(service)
        .serve_with_incoming(incoming);
    AbortOnDrop(tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the listener for operators failed");
        }
    }))
}

/// A task that ends with whoever holds this.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Serving = JoinHandle<Result<(), tonic::transport::Error>>;

fn serve(
    listen: &Listen,
    listener: TcpListener,
    service: Service,
    end: oneshot::Receiver<()>,
) -> Serving {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = GatewayServiceServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES);
    let router = Server::builder()
        .layer(MapResponseLayer::new(with_reason))
        .http2_keepalive_interval(Some(listen.keepalive_interval))
        .http2_keepalive_timeout(Some(listen.keepalive_timeout))
        .max_concurrent_streams(Some(listen.max_streams))
        .initial_stream_window_size(Some(RECEIVE_WINDOW))
        .initial_connection_window_size(Some(WINDOWS * RECEIVE_WINDOW))
        .add_service(service);
    tokio::spawn(router.serve_with_incoming_shutdown(incoming, async move {
        // An error means that the gateway is being dropped: the same end.
        drop(end.await);
    }))
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
                    "did not leave its group within {limit:?}"
                );
            }
        });
    futures::future::join_all(stops).await;
}

async fn close_producers(producers: Vec<Arc<dyn Producer>>, limit: Duration) {
    let closes = producers.iter().map(|producer| producer.flushed(limit));
    futures::future::join_all(closes).await;
}

fn flatten(
    ended: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>,
) -> Result<(), Error> {
    match ended {
        Ok(result) => Ok(result?),
        Err(_panicked) => {
            tracing::error!("the listener's task panicked");
            Ok(())
        }
    }
}
