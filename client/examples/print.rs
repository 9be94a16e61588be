//! Prints every record of a subscription and acks it.
//!
//! Start a gateway, for example with `ackgate demo`, and name the address that it prints:
//!
//! ```text
//! cargo run -p ackgate-client --example print -- http://127.0.0.1:7654 orders
//! ```
//!
//! Ctrl-C stops it: verdicts given so far are sent, the rest is given back.

#![allow(clippy::print_stdout, reason = "the example prints what it receives")]

use std::env;

use ackgate_client::Subscriber;
use futures::StreamExt as _;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = env::args().skip(1);
    let address = args
        .next()
        .unwrap_or_else(|| "http://127.0.0.1:7654".to_owned());
    let subscription = args.next().unwrap_or_else(|| "orders".to_owned());
    let mut subscriber = Subscriber::connect(address, subscription).await?;
    loop {
        let delivery = tokio::select! {
            delivery = subscriber.next() => delivery,
            _ = tokio::signal::ctrl_c() => break,
        };
        let Some(delivery) = delivery.transpose()? else {
            break;
        };
        println!(
            "{}/{}@{} {}",
            delivery.topic(),
            delivery.partition(),
            delivery.offset(),
            delivery
                .value()
                .map_or_else(|| "<null>".into(), String::from_utf8_lossy),
        );
        delivery.ack();
    }
    let stats = subscriber.close().await?;
    println!("{} records, {} acked", stats.records, stats.acked);
    Ok(())
}
