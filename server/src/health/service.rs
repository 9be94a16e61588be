//! `grpc.health.v1.Health`: the board over gRPC. It answers also while new streams are
//! refused.

use std::pin::Pin;

use futures::{Stream, stream};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{self, HealthServer},
};

use super::{board::Board, judge::Health};
use crate::session::{Age, Reason, aged, connection_aged};

/// A request names a service; no name is longer than this and an envelope.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// The service over gRPC.
pub(crate) fn service(health: &Health) -> HealthServer<impl health_server::Health> {
    let service = Service {
        board: health.board(),
    };
    HealthServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES)
}

#[derive(Debug)]
struct Service {
    board: Board,
}

/// One watcher: its service's status, if there is such a service, the age of its
/// connection, and whether the first answer is out.
struct Watcher {
    board: Board,
    status: Option<watch::Receiver<bool>>,
    age: Option<Age>,
    begun: bool,
}

type Responses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl health_server::Health for Service {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        let status = self.board.status(service).ok_or_else(|| {
            Reason::UnknownHealthService.status(
                "there is no such service; the names are \"\", \"ackgate.v1.GatewayService\" and \
                 \"subscription/NAME\" for each subscription of the configuration",
            )
        })?;
        let now = *status.borrow();
        Ok(Response::new(response(serving(now))))
    }

    type WatchStream = Responses;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Responses>, Status> {
        let watcher = Watcher {
            age: Age::of(request.extensions()),
            status: self.board.status(&request.get_ref().service),
            board: self.board.clone(),
            begun: false,
        };
        let responses = stream::unfold(Some(watcher), |watcher| async {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(status) => Some((Ok(response(status)), Some(watcher))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

impl Watcher {
    /// The status now, then each change; how the watch ends, once it does.
    async fn next(&mut self) -> Result<ServingStatus, Status> {
        if std::mem::replace(&mut self.begun, true) {
            let stopped = || Reason::ShuttingDown.status("the gateway has stopped");
            tokio::select! {
                biased;
                changed = changes(&mut self.status) => changed.map_err(|_gone| stopped())?,
                () = self.board.over() => return Err(stopped()),
                _grace = aged(self.age.as_ref()) => return Err(connection_aged()),
            }
        }
        Ok(match &mut self.status {
            Some(status) => serving(*status.borrow_and_update()),
            None => ServingStatus::ServiceUnknown,
        })
    }
}

/// Resolves with the next change. Subscriptions come with the configuration: what is
/// unknown stays so.
async fn changes(
    status: &mut Option<watch::Receiver<bool>>,
) -> Result<(), watch::error::RecvError> {
    match status {
        Some(status) => status.changed().await,
        None => std::future::pending().await,
    }
}

const fn serving(serving: bool) -> ServingStatus {
    if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}
