//! What the end-to-end tests stand on: brokers, gateways and subscribers that are
//! started for one test and gone after it.

mod authority;
mod broker;
mod case;
mod gateway;
mod http2;
mod kafka;
mod process;
mod proxy;
mod publish;
mod pulling;
mod received;
mod stage;
mod stream;
mod subscriber;
mod wait;

pub(crate) use authority::{Authority, Identity};
pub(crate) use broker::{Broker, Outgoing, Seen};
pub(crate) use case::{Case, On, cases, run};
pub(crate) use gateway::{Gateway, Subscription, free_port, render};
pub(crate) use http2::Raw;
pub(crate) use process::{Process, ackgate};
pub(crate) use proxy::Proxy;
pub(crate) use publish::{Publishing, calls, calls_over, record};
pub(crate) use pulling::{Pulling, records_of, span, texts};
pub(crate) use received::Received;
pub(crate) use stage::{Stage, Topic};
pub(crate) use stream::{Stream, connection, reason};
pub(crate) use subscriber::Subscriber;
pub(crate) use wait::{PATIENCE, eventually, throughout};
