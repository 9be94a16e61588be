//! A gateway's server in a runtime of its own, which hands every stream to the test; and
//! waiting with a deadline. Both kinds of client are tested with it.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use ackgate_proto::server::gateway_service_server::{GatewayService, GatewayServiceServer};
use tokio::{net::TcpListener, runtime::Runtime, sync::mpsc, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

/// The longest that any step of a test may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A server in a runtime of its own, so that killing it kills its connections.
pub(crate) struct Served<S> {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
    sessions: mpsc::Receiver<S>,
}

impl<S> Served<S> {
    /// Serves on a port that is free what `service` makes, which sends its streams here.
    pub(crate) async fn somewhere<G: GatewayService>(
        service: impl FnOnce(mpsc::Sender<S>) -> GatewayServiceServer<G>,
    ) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), service).await
    }

    /// The same on a port that a killed server had.
    pub(crate) async fn at<G: GatewayService>(
        address: SocketAddr,
        service: impl FnOnce(mpsc::Sender<S>) -> GatewayServiceServer<G>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (sender, sessions) = mpsc::channel(4);
        // The port of a killed server is free only once its runtime has gone.
        let listening = runtime.spawn(async move {
            loop {
                match TcpListener::bind(address).await {
                    Err(error) if error.kind() == ErrorKind::AddrInUse => {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    listener => return listener,
                }
            }
        });
        let listener = within("the port", listening).await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let service = service(sender);
        runtime.spawn(async move {
            Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
        });
        Self {
            address,
            runtime: Some(runtime),
            sessions,
        }
    }

    /// Ends everything without a word, as SIGKILL would.
    pub(crate) fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// The next stream, before anything was read from it.
    pub(crate) async fn session(&mut self) -> S {
        within("a stream", self.sessions.recv()).await.unwrap()
    }
}

impl<S> Drop for Served<S> {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in time: {what}"),
    }
}
