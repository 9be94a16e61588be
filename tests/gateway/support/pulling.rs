//! A subscriber without a stream, at the level of the protocol.

use std::{net::SocketAddr, time::Duration};

use ackgate_proto::v1::{
    Confirm, ExtendRequest, Extension, LaneEvent, Outcome, PullRequest, PullResponse,
    SettleRequest, Verdict, VerdictAnswer, gateway_service_client::GatewayServiceClient,
};
use tokio::time::{Instant, timeout};
use tonic::{Code, Request, Status, transport::Channel};

use super::{PATIENCE, Received, connection, eventually, reason, received::unpack};

/// One session, or none yet.
#[derive(Clone, Debug)]
pub(crate) struct Pulling {
    /// To call what it does not.
    pub(crate) client: GatewayServiceClient<Channel>,
    /// What every call asks for.
    pub(crate) asks: PullRequest,
    /// News that the answers had.
    pub(crate) events: Vec<LaneEvent>,
}

/// A wait of the protocol's.
pub(crate) fn span(duration: Duration) -> Option<prost_types::Duration> {
    Some(duration.try_into().expect("a short time"))
}

/// The records of an answer.
pub(crate) fn records_of(answer: &PullResponse) -> Vec<Received> {
    answer.batches.iter().cloned().flat_map(unpack).collect()
}

/// Their values.
pub(crate) fn texts(records: &[Received]) -> Vec<&str> {
    records.iter().map(Received::text).collect()
}

impl Pulling {
    /// Of the subscription `orders`; waits for records for 20 s.
    pub(crate) async fn at(address: SocketAddr) -> Self {
        let connection = connection(address).await.expect("the gateway listens");
        Self {
            client: GatewayServiceClient::new(connection).max_decoding_message_size(64 << 20),
            asks: PullRequest {
                subscription: "orders".to_owned(),
                wait: span(Duration::from_secs(20)),
                ..PullRequest::default()
            },
            events: Vec::new(),
        }
    }

    /// One call.
    pub(crate) async fn call(&mut self) -> Result<PullResponse, Status> {
        let call = self.client.pull(Request::new(self.asks.clone()));
        let answer = timeout(PATIENCE, call).await.expect("an answer in time")?;
        let answer = answer.into_inner();
        self.asks.session.clone_from(&answer.session);
        self.events.extend(answer.lane_events.clone());
        Ok(answer)
    }

    /// The records of one call.
    pub(crate) async fn pull(&mut self) -> Vec<Received> {
        let answer = self.call().await.expect("it may pull");
        records_of(&answer)
    }

    /// One call, made again while another one is under way.
    pub(crate) async fn call_when_free(&mut self) -> Result<PullResponse, Status> {
        loop {
            match self.call().await {
                Err(status) if reason(&status) == "PULL_IN_PROGRESS" => {}
                answer => return answer,
            }
        }
    }

    /// The records of one call, made again while another one is under way.
    pub(crate) async fn pull_when_free(&mut self) -> Vec<Received> {
        records_of(&self.call_when_free().await.expect("it may pull"))
    }

    /// Waits until calls are refused because another one is under way.
    pub(crate) async fn is_refused_as_in_progress(&mut self) {
        let wait = self.asks.wait.take();
        eventually("another call is under way", async || {
            match self.call().await {
                Err(status) if reason(&status) == "PULL_IN_PROGRESS" => {
                    assert_eq!(status.code(), Code::Aborted);
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        self.asks.wait = wait;
    }

    /// The records of one call that does not wait.
    pub(crate) async fn pull_now(&mut self) -> Vec<Received> {
        let wait = self.asks.wait.take();
        let records = self.pull().await;
        self.asks.wait = wait;
        records
    }

    /// Calls until so many records have come.
    pub(crate) async fn records(&mut self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + PATIENCE;
        let mut records = Vec::new();
        while records.len() < count {
            assert!(
                Instant::now() < deadline,
                "{count} records did not come: {records:?}"
            );
            records.extend(self.pull().await);
        }
        records
    }

    /// Answers.
    pub(crate) async fn settle(
        &mut self,
        verdicts: Vec<Verdict>,
        confirm: Confirm,
    ) -> Result<Vec<VerdictAnswer>, Status> {
        let request = SettleRequest {
            session: self.asks.session.clone(),
            verdicts,
            confirm: confirm.into(),
            close: false,
        };
        let call = self.client.settle(request);
        let answer = timeout(PATIENCE, call).await.expect("an answer in time")?;
        Ok(answer.into_inner().answers)
    }

    /// Gives each the same verdict, which has to count.
    pub(crate) async fn say(&mut self, records: &[Received], outcome: Outcome) {
        let verdicts = records.iter().map(|one| one.verdict(outcome)).collect();
        let answers = self.settle(verdicts, Confirm::Applied).await;
        assert_eq!(answers.expect("the session is there"), []);
    }

    /// Acks them.
    pub(crate) async fn ack(&mut self, records: &[Received]) {
        self.say(records, Outcome::Acked).await;
    }

    /// Asks for more time.
    pub(crate) async fn extend(
        &mut self,
        records: &[Received],
        by: Duration,
    ) -> Result<Vec<VerdictAnswer>, Status> {
        let extensions = records.iter().map(|one| Extension {
            lane: one.lane,
            first_offset: one.offset,
            last_offset: None,
        });
        let request = ExtendRequest {
            session: self.asks.session.clone(),
            extensions: extensions.collect(),
            by: span(by),
        };
        let answer = self.client.extend(request).await?;
        Ok(answer.into_inner().answers)
    }

    /// Ends the session.
    pub(crate) async fn close(mut self) {
        let request = SettleRequest {
            session: self.asks.session.clone(),
            close: true,
            ..SettleRequest::default()
        };
        let closed = self.client.settle(request).await;
        closed.expect("the session is there");
    }
}
