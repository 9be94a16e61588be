//! The gateway's half of a stream: messages out, one at a time. It never waits for
//! the reader.

use std::{collections::VecDeque, time::Duration};

use ackgate_lane::OffsetRange;
use ackgate_proto::{Frame, v1};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tonic::Status;
use v1::subscribe_response::Response;

use super::{convert, outcome::Outcome};
use crate::consumer::{End, Handle, Input, Outbound, Session};

/// Where messages go to the transport.
pub(super) type Transport = mpsc::Sender<Result<Frame, Status>>;

/// What a writer goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Silence after which a ping is sent.
    pub(super) ping_interval: Duration,
    /// How long the transport may take nothing before the subscriber is given up:
    /// what waits for it has no deadline of its own yet.
    pub(super) stall: Duration,
    /// Largest message the subscriber accepts.
    pub(super) max_message_bytes: u64,
}

/// Writes until the driver ends the session or the transport has gone.
pub(super) async fn run(
    mut outbox: mpsc::Receiver<Outbound>,
    cut: oneshot::Receiver<End>,
    transport: &Transport,
    handle: &Handle,
    session: Session,
    limits: Limits,
) -> Outcome {
    let mut quiet_since = Instant::now();
    let mut rest = VecDeque::new();
    let cut = cut_short(cut);
    tokio::pin!(cut);
    loop {
        // A place at the transport first: what waits in the outbox is not handed over.
        let place = tokio::select! {
            biased;
            end = &mut cut => return end.into(),
            place = tokio::time::timeout(limits.stall, transport.reserve()) => place,
        };
        let place = match place {
            Ok(Ok(place)) => place,
            Ok(Err(_closed)) => return Outcome::Gone,
            Err(_elapsed) => return End::NotReading.into(),
        };
        if let Some(frame) = rest.pop_front() {
            place.send(Ok(frame));
            quiet_since = Instant::now();
            continue;
        }
        let message = tokio::select! {
            biased;
            end = &mut cut => return end.into(),
            () = transport.closed() => return Outcome::Gone,
            message = outbox.recv() => message,
            () = tokio::time::sleep_until(quiet_since + limits.ping_interval) => {
                place.send(Ok(Response::Ping(v1::Ping {}).into()));
                quiet_since = Instant::now();
                continue;
            }
        };
        let (frame, sent) = match message {
            Some(Outbound::Batch(batch)) => {
                let sent = (batch.lane.lane, batch.ranges.clone());
                (convert::batch(batch), Some(sent))
            }
            Some(Outbound::Settled {
                sequence,
                answers,
                ticket: _ticket,
            }) => {
                rest.extend(convert::settled(
                    sequence,
                    answers,
                    limits.max_message_bytes,
                ));
                let Some(first) = rest.pop_front() else {
                    continue;
                };
                (first, None)
            }
            // A stream draws nothing.
            Some(Outbound::Drawn(_)) => continue,
            Some(Outbound::Lane(notice)) => (convert::notice(notice), None),
            Some(Outbound::Drain(left, why)) => (convert::drain(left, why), None),
            Some(Outbound::End(end)) => return end.into(),
            // The driver let go of the session without a word: it has stopped.
            None => return End::ShuttingDown.into(),
        };
        place.send(Ok(frame));
        quiet_since = Instant::now();
        if let Some((lane, ranges)) = sent
            && !tell_sent(handle, session, lane, ranges).await
        {
            return End::ShuttingDown.into();
        }
    }
}

/// Deadlines start at the hand-over to the transport, so the driver is told of it.
async fn tell_sent(handle: &Handle, session: Session, lane: u64, ranges: Vec<OffsetRange>) -> bool {
    handle
        .send(Input::Sent {
            session,
            lane,
            ranges,
        })
        .await
        .is_ok()
}

/// Resolves when the driver ends the session at once. If it lets go of it without
/// that, the end comes through the outbox, after what waits there.
pub(super) async fn cut_short(cut: oneshot::Receiver<End>) -> End {
    match cut.await {
        Ok(end) => end,
        Err(_dropped) => std::future::pending().await,
    }
}
