//! Listeners: how addresses are bound, and with which limits connections are served on
//! them.
//!
//! **Boundary**: connections and what every call passes; what is called is made elsewhere.

use std::{net::SocketAddr, time::Duration};

use ackgate_proto::server::gateway_service_server::GatewayServiceServer;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};
use tower::util::{MapRequestLayer, MapResponseLayer};

use super::{
    Error,
    connections::{self, Limits, Serving},
    reflection,
    unfinished::Unfinished,
    web,
};
use crate::{
    access::{Guard, Tls, Tokens, secured},
    config::Listen,
    health::{self, Health},
    session::{Service, with_reason, with_receipt},
};

/// Largest message a subscriber may send: 10,000 verdicts, each with a code and a
/// reason at their limits.
pub(super) const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// What a subscriber sends is small: windows of 1 MiB never limit verdicts.
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// Streams whose windows fit into that of their connection. A publisher's stream that is
/// not read for a while keeps its window full; with more of them than this on one
/// connection, the other streams of that connection wait too.
const WINDOWS: u32 = 32;

/// Calls on one connection that a client has given up before they were looked at. More
/// end the connection, so that a flood costs a few MiB at most. The library's own limit of
/// 20 is reached by any client that ends many calls early, and the others of its connection
/// would end with them.
const UNHEARD: usize = 16 * 1024;

/// Mistakes of a peer over the life of a connection, such as streams beyond
/// `listen.max_streams`: the library counts on for ever, and 1024 are few for a connection
/// that lives for months.
const MISTAKES: usize = 100_000;

/// All headers of a request, in bytes.
const MAX_HEADERS: u32 = 16 * 1024;

/// Signs of life that a system may leave without an answer.
const KEEPALIVE_TRIES: u32 = 3;

pub(super) async fn bind(option: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| Error::Listen {
        option,
        address,
        source,
    })
}

pub(super) fn local_addr(
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

/// Says in the log who can reach the listener, and how.
pub(super) fn tell(listen: &Listen) {
    let tls = match &listen.tls {
        None => "off",
        Some(_) => "on",
    };
    let client_certificates = match &listen.tls {
        Some(tls) if tls.wants_client_certificates() => "required",
        Some(_) | None => "not required",
    };
    let days_left = listen.tls.as_ref().map(Tls::days_left);
    let tokens = listen.tokens.as_ref().map_or(0, Tokens::count);
    tracing::info!(tls, client_certificates, days_left, tokens, "access");
    for warning in listen.warnings() {
        tracing::warn!(
            detail = warning,
            "the listener is less protected than it could be"
        );
    }
}

/// What subscribers and publishers are served with.
#[derive(Debug)]
pub(super) struct Served<'a> {
    pub(super) service: Service,
    pub(super) health: &'a Health,
    /// Time for a stream to end whose connection is too old.
    pub(super) grace: Duration,
}

/// Everything that can be called here, and what every call passes.
fn routes(listen: &Listen, service: Service, health: &Health) -> Routes {
    let service = GatewayServiceServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES);
    let mut services = Routes::builder();
    services
        .add_service(service)
        .add_service(health::service(health));
    if listen.reflection
        && let Some((v1, v1alpha)) = reflection::v1().zip(reflection::v1alpha())
    {
        services.add_service(v1).add_service(v1alpha);
    }
    let unfinished = Unfinished::new();
    let router = services
        .routes()
        .into_axum_router()
        .layer(MapResponseLayer::new(with_receipt))
        .layer(MapRequestLayer::new(move |request| {
            unfinished.bound(request)
        }))
        .layer(MapResponseLayer::new(with_reason))
        .layer(Guard(listen.tokens.clone()));
    // Outside of the guard: a page asks without a token whether it may call.
    if listen.grpc_web {
        web::over(Routes::from(router), &listen.web_origins)
    } else {
        Routes::from(router)
    }
}

/// Serves until `end`.
pub(super) fn serve(
    listen: &Listen,
    listener: TcpListener,
    served: Served<'_>,
    end: oneshot::Receiver<()>,
) -> JoinHandle<()> {
    let incoming = TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        // Peers that speak HTTP/1 answer no pings.
        .with_keepalive(Some(listen.keepalive_interval))
        .with_keepalive_interval(Some(listen.keepalive_timeout))
        .with_keepalive_retries(Some(KEEPALIVE_TRIES));
    let Served {
        service,
        health,
        grace,
    } = served;
    let server = Server::builder()
        .accept_http1(listen.grpc_web)
        .http2_keepalive_interval(Some(listen.keepalive_interval))
        .http2_keepalive_timeout(Some(listen.keepalive_timeout))
        .max_concurrent_streams(Some(listen.max_streams))
        .http2_max_pending_accept_reset_streams(Some(UNHEARD))
        .http2_max_local_error_reset_streams(Some(MISTAKES))
        .http2_max_header_list_size(Some(MAX_HEADERS))
        .initial_stream_window_size(Some(RECEIVE_WINDOW))
        .initial_connection_window_size(Some(WINDOWS * RECEIVE_WINDOW));
    let limits = Limits {
        age: listen.max_connection_age,
        grace,
        connections: listen.max_connections,
        make_room: false,
        bound: "listen.max_connections",
    };
    let serving = Serving {
        server,
        routes: routes(listen, service, health),
    };
    let end = async move {
        // An error means that the gateway is being dropped: the same end.
        drop(end.await);
    };
    match &listen.tls {
        None => tokio::spawn(connections::run(incoming, serving, limits, end)),
        Some(tls) => {
            let incoming = secured(incoming, tls.clone());
            tokio::spawn(connections::run(incoming, serving, limits, end))
        }
    }
}

/// Says so if the listener's task has not ended by itself.
pub(super) fn note_end(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err() {
        tracing::error!("the listener's task panicked");
    }
}
