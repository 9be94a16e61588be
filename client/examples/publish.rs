//! Publishes some orders as JSON and tells where each was written.
//!
//! Start a gateway whose configuration allows the topic, with
//! `clusters.main.publish.topics = ["orders"]`, and name its address:
//!
//! ```text
//! cargo run -p ackgate-client --example publish -- http://127.0.0.1:7654 orders 10
//! ```

#![allow(
    clippy::print_stdout,
    reason = "the example prints what became of records"
)]

use std::{env, time::Duration};

use ackgate_client::{Outgoing, Publisher};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

#[derive(Serialize)]
struct Order {
    id: u64,
    item: &'static str,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = env::args().skip(1);
    let address = args
        .next()
        .unwrap_or_else(|| "http://127.0.0.1:7654".to_owned());
    let topic = args.next().unwrap_or_else(|| "orders".to_owned());
    let count = args.next().map_or(Ok(10), |count| count.parse::<u64>())?;

    println!("publishing to {topic}, as soon as there is a gateway at {address}");
    let publisher = Publisher::connect(address).await?;
    let orders = (0..count).map(|id| Order {
        id,
        item: "espresso",
    });
    // Up to a hundred receipts are awaited while further orders are sent.
    let mut receipts = stream::iter(orders)
        .then(|order| {
            let (publisher, topic) = (&publisher, &topic);
            async move {
                let key = format!("order-{}", order.id);
                let record = Outgoing::json(topic, &order)?.idempotency_key(&*key);
                anyhow::Ok((key, publisher.send(record).await))
            }
        })
        .map_ok(|(key, receipt)| async { Ok((key, receipt.await)) })
        .try_buffered(100)
        .boxed_local();
    while let Some((key, outcome)) = receipts.try_next().await? {
        match outcome {
            Ok(written) => {
                let offset = written.offset.unwrap_or(-1);
                println!("{key}: {}/{}@{offset}", written.topic, written.partition);
            }
            Err(error) => println!("{key}: {error}"),
        }
    }
    drop(receipts);
    let stats = publisher.close(Duration::from_secs(5)).await;
    println!("{stats}");
    anyhow::ensure!(stats.is_complete(), "not every order was written");
    Ok(())
}
