//! The first message of a stream, or of a session without one: who subscribes to what,
//! with which limits.

pub(super) mod resume;

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use tonic::{Status, Streaming};

use super::{convert, status::Reason};
use crate::{
    config::{self, Delivery},
    consumer::{Confirm, Credit, Handle, Manifest},
    filter::{Filter, SOURCE_BYTES},
    registry::{Lease, Registry},
};

mod ad_hoc;
mod batch;
mod options;
mod refused;

/// Time for the first message.
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// What most gRPC libraries accept by default.
pub(super) const DEFAULT_MESSAGE_BYTES: u64 = 4 * 1024 * 1024;

/// A smaller limit would leave no room for records beside a batch's head.
const LEAST_MESSAGE_BYTES: u64 = 4096;

const MOST_MESSAGE_BYTES: u64 = 1 << 30;

const LONGEST_NAME: usize = 256;

const ACK_DEADLINES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// A valid `Open`.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) handle: Handle,
    /// Keeps what `handle` leads to.
    pub(super) lease: Option<Lease>,
    pub(super) name: Arc<str>,
    pub(super) resumable: bool,
    pub(super) takeover: bool,
    /// By calls, without a stream.
    pub(super) pulls: bool,
    pub(super) resume: Option<Manifest>,
    pub(super) credit: Credit,
    pub(super) max_message_bytes: u64,
    pub(super) ack_deadline: Duration,
    pub(super) confirm: Confirm,
    /// Broadcast: its own.
    pub(super) filter: Option<Filter>,
    pub(super) batch: config::Batch,
    pub(super) until_drained: bool,
}

/// Waits for `Open` and checks it.
pub(super) async fn receive(
    input: &mut Streaming<v1::SubscribeRequest>,
    registry: &Registry,
) -> Result<Opening, Status> {
    let first = tokio::time::timeout(OPEN_WITHIN, input.message())
        .await
        .map_err(|_elapsed| {
            Reason::OpenTimeout.status(format!("no Open within {OPEN_WITHIN:?} of the call"))
        })?;
    let message = match first {
        Ok(Some(message)) => message,
        Ok(None) => return Err(Reason::OpenExpected.status("the input ended before an Open")),
        Err(status) => return Err(convert::input_broken(&status)),
    };
    match message.request {
        Some(v1::subscribe_request::Request::Open(open)) => accept(open, registry).await,
        Some(
            v1::subscribe_request::Request::Credit(_)
            | v1::subscribe_request::Request::Settle(_)
            | v1::subscribe_request::Request::Extend(_)
            | v1::subscribe_request::Request::Close(_)
            | v1::subscribe_request::Request::Beat(_),
        )
        | None => Err(Reason::OpenExpected.status("the first message must be Open")),
    }
}

/// Checks an `Open` and finds what it is about.
pub(super) async fn accept(mut open: v1::Open, registry: &Registry) -> Result<Opening, Status> {
    let expected = std::mem::take(&mut open.filter);
    let mut opening = check(open, registry).await?;
    opening.filter = filter(&expected, opening.handle.subscription()).await?;
    Ok(opening)
}

/// Where records are shared a subscriber's filter is the subscription's or none; where
/// each subscriber gets all of them it may have its own.
async fn filter(
    expected: &str,
    subscription: &config::Subscription,
) -> Result<Option<Filter>, Status> {
    let expected = expected.trim();
    let ours = subscription.intake.filter.as_ref().map(Filter::source);
    if expected.is_empty() || ours == Some(expected) {
        return Ok(None);
    }
    if expected.len() <= SOURCE_BYTES {
        let source = expected.to_owned();
        // It waits for a thread.
        let compiled = tokio::task::spawn_blocking(move || Filter::compile(&source));
        match (compiled.await, subscription.delivery) {
            (Ok(Err(invalid)), _) => {
                return Err(Reason::OpenInvalid.field("open.filter", &invalid.to_string()));
            }
            (Ok(Ok(own)), Delivery::Broadcast(_)) => return Ok(Some(own)),
            // A runtime that stops runs nothing more.
            (Err(_), _) | (Ok(Ok(_)), Delivery::Competing) => {}
        }
    } else {
        let text = format!("must have at most {SOURCE_BYTES} bytes");
        return Err(Reason::OpenInvalid.field("open.filter", &text));
    }
    let text = if ours.is_some() {
        "is not the filter of the subscription, whose subscribers share its records: leave it \
         empty, or give the same"
    } else {
        "is given, and the subscription, whose subscribers share its records, has none: leave it \
         empty"
    };
    Err(Reason::OptionsContradict.field("open.filter", text))
}

async fn check(mut open: v1::Open, registry: &Registry) -> Result<Opening, Status> {
    let invalid = |field: &str, text: &str| Err(Reason::OpenInvalid.field(field, text));
    let target = ad_hoc::target(&mut open)?;
    if open.subscriber_id.len() > LONGEST_NAME || open.subscriber_id.contains(char::is_control) {
        return invalid(
            "open.subscriber_id",
            "must have at most 256 bytes and no control characters",
        );
    }
    let max_message_bytes = match open.max_message_bytes {
        0 => DEFAULT_MESSAGE_BYTES,
        some if (LEAST_MESSAGE_BYTES..=MOST_MESSAGE_BYTES).contains(&some) => some,
        _ => return invalid("open.max_message_bytes", "must be 0 or 4096 to 1073741824"),
    };
    let Ok(confirm) = v1::Confirm::try_from(open.confirm) else {
        return invalid("open.confirm", "is not a known value");
    };
    let ack_deadline = match open.ack_deadline.map(Duration::try_from) {
        None => None,
        Some(Ok(wanted)) if ACK_DEADLINES.contains(&wanted) => Some(wanted),
        Some(_) => return invalid("open.ack_deadline", "must be 100 ms to 1 h"),
    };
    let credit = open.credit.map_or(Ok(Credit::default()), convert::credit)?;
    let batch = batch::Asked::of(open.batch.unwrap_or_default())?;
    let resume = open.resume.map(resume::manifest).transpose()?;
    let name = if open.subscriber_id.is_empty() {
        // Unlike any other, also of other gateways.
        Arc::from(format!("subscriber-{:016x}", fastrand::u64(..)))
    } else {
        Arc::from(open.subscriber_id)
    };
    // Last: nothing is opened for an `Open` that is wrong anyway.
    let found = registry.open(target.clone()).await;
    let (handle, lease) = found.map_err(|why| refused::status(&target, why))?;
    let subscription = handle.subscription();
    Ok(Opening {
        ack_deadline: ack_deadline.unwrap_or(subscription.policy.ack_deadline),
        batch: batch.over(subscription.batch),
        handle,
        lease: Some(lease),
        name,
        resumable: open.resumable,
        takeover: open.takeover,
        pulls: false,
        resume,
        credit,
        max_message_bytes,
        until_drained: open.until_drained,
        confirm: match confirm {
            v1::Confirm::Unspecified => Confirm::Problems,
            v1::Confirm::Applied => Confirm::Applied,
            v1::Confirm::Durable => Confirm::Durable,
        },
        filter: None,
    })
}
