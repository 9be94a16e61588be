//! Fetches from lanes in turn.

use rdkafka::error::RDKafkaErrorCode;

use super::{
    core::{Core, end_of},
    encode::Encoder,
    error,
    lane::Lane,
    rebalance::Context,
};
use crate::{
    broker::{Error, ErrorKind, Event},
    telemetry::traces::Sampling,
};

/// The order of turns, and the buffers that records are written to.
pub(super) struct Fetcher {
    encoder: Encoder,
    /// The lane to begin with, so that a full events queue is shared fairly.
    turn: usize,
}

impl Fetcher {
    pub(super) fn new(sampling: Option<Sampling>) -> Self {
        Self {
            encoder: Encoder::probing(sampling),
            turn: 0,
        }
    }

    /// One chunk from each lane that may. Whether there was any.
    pub(super) fn fetch(&mut self, core: &mut Core, context: &Context) -> bool {
        let Core {
            lanes,
            outbox,
            health,
            ..
        } = core;
        let count = lanes.len();
        let mut progress = false;
        for step in 0..count {
            let at = (self.turn + step) % count;
            let Some(lane) = lanes.get_mut(at) else {
                continue;
            };
            if !lane.fetchable() {
                continue;
            }
            if !outbox.flush() {
                self.turn = at;
                return progress;
            }
            let (chunk, failure) = lane.fetch(&mut self.encoder);
            if let Some(chunk) = chunk {
                progress = true;
                if let Some(state) = health.contact() {
                    outbox.send(Event::Cluster(state));
                }
                outbox.send(Event::Fetched(chunk));
            }
            if let Some(event) = end_of(lane) {
                outbox.send(event);
            }
            progress |= failure.is_some();
            let code = failure.and_then(|error| error.rdkafka_error_code());
            if code.is_some_and(error::is_astray) {
                // librdkafka tells a truncation that it has found in words only.
                let reason = context.last_complaint(RDKafkaErrorCode::AutoOffsetReset);
                let truncated = reason.is_some_and(|reason| {
                    reason.contains("truncation") || reason.contains("No epoch found")
                });
                lane.go_astray(truncated);
            }
            if let Some(code) = code.filter(|code| error::ends_lane(*code)) {
                lane.fail();
                let error = lane_error(context, lane, code);
                outbox.send(Event::LaneFailed {
                    generation: lane.generation,
                    error,
                });
            }
        }
        progress
    }
}

/// Has errors that carry a code but no text of their own named.
fn lane_error(context: &Context, lane: &Lane, code: RDKafkaErrorCode) -> Error {
    let what = format!("reading {lane}");
    let mut error = error::coded(code, &what);
    error.kind = ErrorKind::Operator;
    if let Some(reason) = context.last_complaint(code) {
        error.detail = format!("{what}: {reason}");
    }
    error
}
