//! Subscribes to Kafka records through an ackgate gateway, and [writes](#publishing)
//! them: no consumer group, no rebalance callbacks, no offsets. A [`Subscriber`] is a stream of deliveries;
//! each is answered with a verdict, and the verdicts alone decide what the gateway
//! commits to Kafka.
//!
//! ```no_run
//! use ackgate_client::Subscriber;
//! use futures::StreamExt as _;
//!
//! # async fn store(order: &[u8]) -> std::io::Result<()> { Ok(()) }
//! # async fn example() -> Result<(), ackgate_client::Error> {
//! let mut orders = Subscriber::connect("http://127.0.0.1:7654", "orders").await?;
//! while let Some(delivery) = orders.next().await {
//!     let delivery = delivery?;
//!     match delivery.value() {
//!         None => delivery.reject("empty", "an order has a value"),
//!         Some(order) => match store(order).await {
//!             Ok(()) => delivery.ack(),
//!             Err(error) => delivery.fail(error.to_string()),
//!         },
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Verdicts
//!
//! | call | meaning | uses an attempt |
//! |---|---|---|
//! | [`ack`](Delivery::ack) | done | no |
//! | [`reject`](Delivery::reject) | never: dead-letter it now | no |
//! | [`fail`](Delivery::fail), [`fail_after`](Delivery::fail_after) | not this time: again after a backoff | yes |
//! | [`release`](Delivery::release) | not started: again at once, elsewhere if possible | no |
//! | dropped without a verdict | as `fail`, with code `dropped` | yes |
//! | [`leave`](Delivery::leave) | no verdict: the deadline passes, or the session ends | if the deadline passes |
//!
//! [`extend`](Delivery::extend) asks for more time and is no verdict. Verdicts may
//! be given in any order, from any thread or task, while the stream goes on; at
//! most the [credit](Builder::credit) is in hand at a time. They are gathered for
//! 5 ms or 1,024 records, and acks of records that follow each other go out as one
//! range.
//!
//! # What is guaranteed
//!
//! A record that was acked counts as done once the gateway has the ack; if the
//! connection or the gateway is lost before, the record is delivered again. So
//! **a record can come more than once**: topic, partition and offset tell it apart.
//! The subscriber connects again by itself. If only the connection was lost, and for
//! less than the gateway's `resume_grace`, deliveries in hand stay valid; verdicts on
//! those that the gateway did not keep no longer count ([`ProblemKind::Lost`],
//! [`Stats::stale_answers`]). [`Subscriber::close`] waits until the gateway has taken
//! every verdict given before.
//!
//! # Whole batches
//!
//! Programs that work on many records at once take the batches as they come and
//! answer each with a handful of numbers:
//!
//! ```no_run
//! # use ackgate_client::{Error, Subscriber};
//! # async fn insert(rows: &[(i64, Option<&[u8]>)]) -> std::io::Result<()> { Ok(()) }
//! # async fn example(mut orders: Subscriber) -> Result<(), Error> {
//! while let Some(batch) = orders.next_batch().await? {
//!     let rows: Vec<_> = batch.records().map(|it| (it.offset(), it.value())).collect();
//!     match insert(&rows).await {
//!         Ok(()) => batch.ack_all(),
//!         Err(error) => batch.fail_all("database", error.to_string()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Several at a time
//!
//! A [`Worker`] calls a handler for each record, many at a time, and answers by what it
//! returns: deadlines move while work goes on, a panic is a failure, and a shutdown
//! finishes what was begun and releases the rest.
//!
//! ```no_run
//! use ackgate_client::{HandlerError, Message, Subscriber};
//!
//! # async fn insert(value: Option<&[u8]>) -> std::io::Result<()> { Ok(()) }
//! async fn store(order: Message) -> Result<(), HandlerError> {
//!     Ok(insert(order.value()).await?)
//! }
//!
//! # async fn example() -> Result<(), ackgate_client::Error> {
//! let orders = Subscriber::builder("http://127.0.0.1:7654", "orders")
//!     .subscriber_id("billing-7")
//!     .credit(64, 16 << 20)
//!     .connect()
//!     .await?;
//! orders.worker().concurrency(16).run(store).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Several gateways
//!
//! With several addresses, or a name that resolves to several, a subscriber has a stream to
//! each gateway ([`Subscriber::builder`]) and a publisher to one at a time
//! ([`Publisher::builder`]). Credit is split ([`Builder::credit`]), names are each gateway's
//! own ([`Builder::subscriber_id`]), and lost streams are gone on with one by one. A gateway
//! that asks to leave is left at once: the next stream opens while what is in hand of the old
//! one is still answered there.
//!
//! # Traces, events, channels
//!
//! [`Delivery::trace_context`] is the trace that a record belongs to, [`Delivery::span`] a
//! `tracing` span for the work on it, [`Builder::observe`] tells what happens to the streams,
//! and [`Builder::channel`] takes the place of connections.
//!
//! # Until there is nothing left
//!
//! ```no_run
//! # use ackgate_client::{Error, OnReject, Start, Subscriber, SubscriptionOptions};
//! use futures::{StreamExt as _, TryStreamExt as _};
//!
//! # async fn example() -> Result<(), Error> {
//! let options = SubscriptionOptions::new()
//!     .start(Start::Earliest)
//!     .on_reject(OnReject::Hold);
//! let mut orders = Subscriber::ad_hoc("http://127.0.0.1:7654", "main", ["orders"], "nightly")
//!     .options(options)
//!     .until_drained()
//!     .connect()
//!     .await?;
//! while let Some(delivery) = orders.try_next().await? {
//!     delivery.ack();
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Without a stream
//!
//! A [`Puller`] takes records by plain calls, for jobs and functions that come, work and go:
//! each record is leased until its deadline.
//!
//! # Publishing
//!
//! A [`Publisher`] writes records through the same gateway, to the topics that its
//! configuration allows. Each `send` waits for room and gives a [`Receipt`], which resolves
//! to where the record was written or to why it was not.
//!
//! ```no_run
//! use std::time::Duration;
//! use ackgate_client::{Outgoing, Publisher};
//!
//! # #[derive(serde::Serialize)] struct Order { id: u32 }
//! # async fn example(orders: Vec<Order>) -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = Publisher::connect("http://127.0.0.1:7654").await?;
//! let mut receipts = Vec::new();
//! for order in &orders {
//!     let key = format!("order-{}", order.id);
//!     let record = Outgoing::json("orders", order)?.idempotency_key(&*key);
//!     receipts.push(publisher.send(record).await);
//! }
//! for receipt in receipts {
//!     let written = receipt.await?;
//!     println!("{}/{}", written.topic, written.partition);
//! }
//! let stats = publisher.close(Duration::from_secs(5)).await;
//! assert!(stats.is_complete(), "{stats}");
//! # Ok(())
//! # }
//! ```
//!
//! A record is **written once** if its receipt says so; a receipt that says
//! [`Unknown`](NotWrittenKind::Unknown) leaves it open, and with
//! [`retry_unanswered`](PublisherBuilder::retry_unanswered) it can be written twice. Give
//! records an [idempotency key](Outgoing::idempotency_key) so that readers can tell.
//!
//! # TLS and tokens
//!
//! ```no_run
//! # use ackgate_client::{Error, Subscriber, Tls};
//! # async fn example(token: String) -> Result<(), Error> {
//! let orders = Subscriber::builder("https://gateway.internal:7654", "orders")
//!     .tls(Tls::new().ca_file("/etc/ackgate/ca.pem"))
//!     .token(token)
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! A gateway that is not trusted is [`Error::Tls`], a token that it does not know an
//! [`Error::Status`] with [`Code::Unauthenticated`]; neither is tried again.

mod addresses;
mod batch;
mod delivery;
mod dial;
mod durable;
mod error;
mod event;
mod held;
mod hub;
mod lane_event;
mod lease;
mod link;
mod options;
mod plain;
mod publisher;
mod puller;
mod record;
mod resume;
mod roll;
mod session;
mod settler;
mod shape;
mod stats;
mod subscriber;
mod tls;
mod token;
mod trace;
mod tries;
mod worker;
mod writer;

pub use addresses::Addresses;
pub use batch::Batch;
pub use delivery::Delivery;
pub use durable::{Durable, NotDurable};
pub use error::Error;
pub use event::{DrainReason, Event, Verdict};
pub use lease::{Lease, LeaseVerdict};
pub use options::{Builder, Confirm};
pub use publisher::{
    Acks, EncodeError, NotWritten, NotWrittenKind, Outgoing, PublishStats, Publisher,
    PublisherBuilder, Receipt, Written,
};
pub use puller::Puller;
pub use record::{Record, TimestampType};
pub use shape::{Batches, DeliveryMode, OnReject, Order, Start, SubscriptionOptions};
pub use stats::{Problem, ProblemKind, Stats};
pub use subscriber::Subscriber;
pub use tls::Tls;
pub use tonic::Code;
pub use trace::TraceContext;
pub use worker::{HandlerError, Message, WorkSummary, Worker};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
