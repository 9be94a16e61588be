//! A worker with a bad day: it works on eight records at a time, fails every fifth
//! one at the first attempt, and rejects what is not text.
//!
//! Start a gateway, for example with `ackgate demo`, and name the address that it prints:
//!
//! ```text
//! cargo run -p ackgate-client --example flaky -- http://127.0.0.1:7654 orders
//! ```
//!
//! Failed records come again after the subscription's backoff, rejected ones go to
//! its dead-letter topic. Ctrl-C stops it after the records in hand are answered.

#![allow(clippy::print_stdout, reason = "the example prints what it does")]

use std::{env, time::Duration};

use ackgate_client::{Delivery, Error, Subscriber};
use futures::StreamExt as _;
use tokio::{task::JoinSet, time};

/// Records worked on at a time.
const WORKERS: usize = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = env::args().skip(1);
    let address = args
        .next()
        .unwrap_or_else(|| "http://127.0.0.1:7654".to_owned());
    let subscription = args.next().unwrap_or_else(|| "orders".to_owned());
    let mut subscriber = Subscriber::builder(address, subscription)
        .subscriber_id("flaky")
        // A few more than are worked on, so that the next one is at hand.
        .credit(32, 16 << 20)
        .connect()
        .await?;

    let mut work = JoinSet::new();
    loop {
        let delivery = tokio::select! {
            delivery = subscriber.next() => delivery,
            _ = tokio::signal::ctrl_c() => break,
        };
        let Some(delivery) = delivery.transpose()? else {
            break;
        };
        if work.len() >= WORKERS {
            work.join_next().await;
        }
        work.spawn(handle(delivery));
    }
    while work.join_next().await.is_some() {}
    report(subscriber).await?;
    Ok(())
}

async fn handle(delivery: Delivery) {
    let at = format!(
        "{}/{}@{}",
        delivery.topic(),
        delivery.partition(),
        delivery.offset()
    );
    // Only work that takes longer than the deadline needs this.
    delivery.extend(Duration::from_secs(60));
    time::sleep(Duration::from_millis(20)).await;
    if delivery
        .value()
        .is_none_or(|value| str::from_utf8(value).is_err())
    {
        println!("{at} rejected");
        delivery.reject("not-text", "the value is not UTF-8 text");
    } else if delivery.offset() % 5 == 0 && delivery.attempt() == 1 {
        println!("{at} failed, to come again");
        delivery.fail("every fifth record fails once");
    } else {
        println!("{at} acked at attempt {}", delivery.attempt());
        delivery.ack();
    }
}

async fn report(mut subscriber: Subscriber) -> Result<(), Error> {
    for problem in subscriber.problems() {
        println!("{problem:?}");
    }
    let stats = subscriber.close().await?;
    println!(
        "{} acked, {} failed, {} rejected",
        stats.acked, stats.failed, stats.rejected
    );
    Ok(())
}
