//! How a session begins: connects, opens the stream, and takes in what the gateway says of
//! it.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ackgate_proto::v1;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use v1::{gateway_service_client::GatewayServiceClient, subscribe_response::Response};

use super::Session;
use crate::{
    Error, Order, event::Event, link::Link, roll::Leg, settler::Given, stats::add, writer,
};

/// Messages between the gathering of verdicts and the transport.
const OUTBOX: usize = 8;

/// Opens a session of a leg. One that leaves takes no records.
pub(crate) async fn open(link: &Arc<Link>, leg: &Arc<Leg>) -> Result<Box<Session>, Error> {
    let shared = &link.shared;
    let (mut stream, requests) = connect(link, leg).await?;
    let mut opened = first(link, &mut stream).await?;
    let settings = opened.settings.take().unwrap_or_default();
    shared.roll.opened(leg, &opened);
    let resumed = kept(&opened);
    let resumption = std::mem::take(&mut opened.resumed);
    let number = leg.settler.begin(resumption, given(&settings));
    if !link.begun.swap(true, Relaxed) {
        add(&shared.counters.firsts, 1);
    }
    add(&shared.counters.sessions, 1);
    shared.counters.tell(&Event::Opened {
        gateway: &leg.gateway,
        session: &opened.session,
        subscriber_id: &opened.subscriber_id,
        resumed,
    });
    if leg.is_leaving() {
        leg.settler.drain();
    }
    let max_verdicts = usize::try_from(settings.max_verdicts).unwrap_or(writer::MAX_VERDICTS);
    let terms = writer::Terms {
        session: number,
        max_verdicts: if max_verdicts == 0 {
            writer::MAX_VERDICTS
        } else {
            max_verdicts
        },
        close_timeout: shared.options.close_timeout,
        beat: settings.lease_beat.and_then(interval),
    };
    let settler = Arc::clone(&leg.settler);
    Ok(Box::new(Session {
        link: Arc::clone(link),
        leg: Arc::clone(leg),
        number,
        stream,
        writing: tokio::spawn(writer::write(settler, requests, terms)),
        silence: settings.ping_interval.and_then(silence),
        closing_until: None,
        draining: leg.is_leaving(),
        begun: Instant::now(),
        useful: false,
    }))
}

/// How many runs the gateway kept.
fn kept(opened: &v1::Opened) -> usize {
    let kept = v1::ResumeResult::Kept;
    let kept = opened.resumed.iter().filter(|it| it.result() == kept);
    kept.count()
}

fn given(settings: &v1::Settings) -> Given {
    Given {
        ack_deadline: settings.ack_deadline.and_then(interval),
        order: Order::of(settings.order()),
    }
}

type Open = (
    Streaming<v1::SubscribeResponse>,
    mpsc::Sender<v1::SubscribeRequest>,
);

async fn connect(link: &Link, leg: &Leg) -> Result<Open, Error> {
    let options = &link.shared.options;
    let (channel, uri) = link.shared.dialer.dial(&link.target).await?;
    let limit = usize::try_from(options.max_message_bytes).unwrap_or(usize::MAX);
    let mut client =
        GatewayServiceClient::with_origin(channel, uri).max_decoding_message_size(limit);
    let (requests, outbox) = mpsc::channel(OUTBOX);
    let open = v1::subscribe_request::Request::Open(opening(link, leg));
    // `Open` is on its way before the headers are awaited: some gateways and
    // proxies send none before they have it.
    requests
        .send(v1::SubscribeRequest {
            request: Some(open),
        })
        .await
        .map_err(|_| Error::Ended)?;
    let call = client.subscribe(link.shared.dialer.token().on(ReceiverStream::new(outbox)));
    let timeout = options.open_timeout;
    let response = time::timeout(timeout, call)
        .await
        .map_err(|_| Error::NotOpened(timeout))??;
    Ok((response.into_inner(), requests))
}

/// What to begin with: anew, or where the leg's last session broke.
fn opening(link: &Link, leg: &Leg) -> v1::Open {
    let (records, bytes) = match leg.is_leaving() {
        true => (0, 0),
        false => link.shared.roll.share(),
    };
    let mut open = link.shared.options.open(records, bytes);
    open.takeover = link.shared.options.takeover && !link.begun.load(Relaxed);
    if let Some((subscriber_id, token)) = leg.resume() {
        let held = leg.settler.manifest();
        open.subscriber_id = subscriber_id;
        open.resume = Some(v1::Resume { token, held });
    }
    open
}

async fn first(
    link: &Link,
    stream: &mut Streaming<v1::SubscribeResponse>,
) -> Result<v1::Opened, Error> {
    let options = &link.shared.options;
    let timeout = options.open_timeout;
    let message = time::timeout(timeout, stream.message())
        .await
        .map_err(|_| Error::NotOpened(timeout))??
        .ok_or(Error::Ended)?;
    let Some(Response::Opened(opened)) = message.response else {
        return Err(Error::Protocol("the first message is not Opened"));
    };
    tracing::info!(
        session = opened.session,
        subscriber = opened.subscriber_id,
        subscription = options.source.name(),
        gateway = link.name,
        "subscribed"
    );
    Ok(opened)
}

/// Twice the ping interval; none if the gateway promises no pings.
fn silence(ping_interval: prost_types::Duration) -> Option<Duration> {
    interval(ping_interval)?.checked_mul(2)
}

/// An interval above zero.
fn interval(duration: prost_types::Duration) -> Option<Duration> {
    Duration::try_from(duration).ok().filter(|it| !it.is_zero())
}
