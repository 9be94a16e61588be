//! The listener for operators: their gRPC service, and pages over HTTP, on one port.

use std::{net::SocketAddr, time::Duration};

use ackgate_proto::server::admin_service_server::AdminServiceServer;
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

use super::connections::{self, Limits, Serving};
use crate::admin::{
    Admin,
    http::{self, Names, Parts},
};

/// The longest a call may take, and how many one connection may have at a time.
const CALL_WITHIN: Duration = Duration::from_secs(30);
const CALLS: usize = 16;

/// Connections at one time: tools, probes and collectors. Beyond it the quietest one makes
/// room, so that none that nobody speaks on keeps a probe out.
const CONNECTIONS: usize = 256;

/// All headers of a request, in bytes.
const MAX_HEADERS: u32 = 16 * 1024;

/// A peer that answers no ping for so long is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Operators are served until the gateway has stopped: also while it drains they may
/// want to see what is left.
pub(super) fn serve(listener: TcpListener, parts: &Parts, address: SocketAddr) -> AbortOnDrop {
    let names = Names::of(address.ip());
    let service = AdminServiceServer::new(Admin::new(parts.registry.clone()));
    let router = http::router(parts, Routes::new(service), names);
    let serving = Serving {
        server: Server::builder()
            .accept_http1(true)
            .timeout(CALL_WITHIN)
            .concurrency_limit_per_connection(CALLS)
            .max_concurrent_streams(u32::try_from(CALLS).ok())
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_ANSWERED_WITHIN))
            .http2_max_header_list_size(Some(MAX_HEADERS)),
        routes: Routes::from(router),
    };
    let limits = Limits {
        age: None,
        grace: Duration::ZERO,
        connections: CONNECTIONS,
        make_room: true,
        bound: "the most of the admin address",
    };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let run = connections::run(incoming, serving, limits, std::future::pending());
    AbortOnDrop(tokio::spawn(run))
}

/// A task that ends with whoever holds this.
#[derive(Debug)]
pub(super) struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
