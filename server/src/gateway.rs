//! The gateway as a whole: which parts it is made of, in which order they start and
//! in which order they stop.
//!
//! **Boundary**: wiring only. Configuration comes in as a value; who asks for the
//! stop is the caller's affair.

use std::{collections::HashMap, future::Future, net::SocketAddr, sync::Arc, time::Duration};

use ackgate_proto::server::gateway_service_server::GatewayServiceServer;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::Instant};
use tonic::transport::{Server, server::TcpIncoming};

use crate::{
    broker::{
        self, Producer,
        kafka::{KafkaConnect, KafkaProducer},
    },
    config::{Cluster, Config, Listen, Shutdown, Subscription},
    consumer::{self, Budget, Handle, Input, Parts, Wall},
    session::{Gate, Service},
};

/// Largest message a subscriber may send: 10,000 verdicts, each with a code and a
/// reason at their limits.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// What a subscriber sends is small: windows of 1 MiB never limit verdicts.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// The part of the gateway's memory that Kafka's client may fill ahead of the lanes:
/// one in so many, over all subscriptions.
const PREFETCH_PART: u64 = 4;

/// Time for connections to end once all streams have; a peer that never spoke
/// HTTP/2 would otherwise keep the listener for ever.
const CONNECTIONS_END_WITHIN: Duration = Duration::from_secs(1);

/// What the consumer's own drain of lanes may take beyond the stop's deadline.
const LEAVE_MARGIN: Duration = Duration::from_secs(2);

/// Why a gateway could not be built or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("listen.address = {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A subscription names a cluster that is not configured.
    #[error("subscriptions.{subscription}.cluster = {cluster:?}: no such cluster")]
    NoCluster {
        /// The subscription.
        subscription: String,
        /// The name it gives.
        cluster: String,
    },
    /// The client library refuses the settings of a dead-letter producer.
    #[error("subscriptions.{subscription}.dead_letter: {source}")]
    Producer {
        /// The subscription.
        subscription: String,
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
    gate: Gate,
    subscriptions: HashMap<String, Handle>,
    producers: Vec<Arc<KafkaProducer>>,
}

impl Gateway {
    /// Binds the listener and starts the subscriptions' drivers. No consumer joins
    /// its group before a subscriber comes. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, or a part refuses its settings.
    pub async fn build(config: Config) -> Result<Self, Error> {
        let address = config.listen.address;
        let listen_error = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let budget = Budget::new(config.memory_bytes);
        let readers = config.subscriptions.len().max(1) as u64;
        let prefetch = config.memory_bytes / PREFETCH_PART / readers;
        let origin = Instant::now();
        let mut subscriptions = HashMap::new();
        let mut producers = Vec::new();
        for subscription in config.subscriptions {
            let cluster = find_cluster(&config.clusters, &subscription)?;
            let producer = dead_letter_producer(cluster, &subscription)?;
            producers.extend(producer.clone());
            let subscription = Arc::new(subscription);
            let handle = consumer::spawn(Parts {
                subscription: Arc::clone(&subscription),
                connect: Arc::new(KafkaConnect::new(cluster, &subscription).within(prefetch)),
                producer: producer.map(|producer| producer as Arc<dyn Producer>),
                budget: budget.clone(),
                origin,
                wall: Wall::system(),
            });
            subscriptions.insert(subscription.name.clone(), handle);
        }
        Ok(Self {
            listen: config.listen,
            shutdown: config.shutdown,
            listener,
            address,
            gate: Gate::default(),
            subscriptions,
            producers,
        })
    }

    /// Where the gateway listens; tells the port if 0 was configured.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
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
            gate,
            subscriptions,
            producers,
            address,
        } = self;
        let service = Service::new(subscriptions.clone(), gate.clone(), listen.ping_interval);
        let (end_connections, connections_end) = oneshot::channel::<()>();
        let mut server = serve(&listen, listener, service, connections_end);
        tracing::info!(%address, subscriptions = subscriptions.len(), "listening");
        tokio::select! {
            ended = &mut server => return flatten(ended),
            () = stop => {}
        }
        tracing::info!(
            "stopping: refusing new streams, draining for {:?}",
            shutdown.drain
        );
        gate.close();
        stop_drivers(subscriptions, &shutdown).await;
        close_producers(producers, shutdown.close).await;
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

fn find_cluster<'a>(
    clusters: &'a [Cluster],
    subscription: &Subscription,
) -> Result<&'a Cluster, Error> {
    clusters
        .iter()
        .find(|cluster| cluster.name == subscription.cluster)
        .ok_or_else(|| Error::NoCluster {
            subscription: subscription.name.clone(),
            cluster: subscription.cluster.clone(),
        })
}

fn dead_letter_producer(
    cluster: &Cluster,
    subscription: &Subscription,
) -> Result<Option<Arc<KafkaProducer>>, Error> {
    let Some(dead_letter) = &subscription.dead_letter else {
        return Ok(None);
    };
    let producer =
        KafkaProducer::new(cluster, &dead_letter.producer_properties).map_err(|source| {
            Error::Producer {
                subscription: subscription.name.clone(),
                source,
            }
        })?;
    Ok(Some(Arc::new(producer)))
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
        .http2_keepalive_interval(Some(listen.keepalive_interval))
        .http2_keepalive_timeout(Some(listen.keepalive_timeout))
        .max_concurrent_streams(Some(listen.max_streams))
        .initial_stream_window_size(Some(RECEIVE_WINDOW))
        .initial_connection_window_size(Some(4 * RECEIVE_WINDOW))
        .add_service(service);
    tokio::spawn(router.serve_with_incoming_shutdown(incoming, async move {
        // An error means that the gateway is being dropped: the same end.
        drop(end.await);
    }))
}

/// All drivers drain at the same time and leave their groups.
async fn stop_drivers(subscriptions: HashMap<String, Handle>, shutdown: &Shutdown) {
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

async fn close_producers(producers: Vec<Arc<KafkaProducer>>, limit: Duration) {
    let closes = producers.into_iter().map(|producer| producer.close(limit));
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
