//! The demo's subscriber: what a service does with orders, through the client crate.

use std::sync::Arc;

use ackgate_client::{Delivery, Subscriber};
use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{ORDERS, ledger::Ledger, orders::Order};

/// One order in this many meets a payment service that is not there, once.
const FAILS_IN: u64 = 40;

/// What becomes of an order.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Ack,
    Fail,
    Reject(String),
}

/// Answers orders until it is told to stop, then says goodbye.
///
/// # Errors
/// The gateway refused it, or ended the stream for good.
pub(super) async fn run(
    address: String,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
) -> Result<()> {
    let builder = Subscriber::builder(address, ORDERS).subscriber_id("demo");
    let mut subscriber = builder.connect().await.context("subscribing to orders")?;
    loop {
        let delivery = tokio::select! {
            () = stop.cancelled() => break,
            delivery = subscriber.next() => delivery,
        };
        match delivery {
            Some(delivery) => answer(delivery?, &ledger),
            None => break,
        }
    }
    subscriber.close().await.context("saying goodbye")?;
    Ok(())
}

fn answer(delivery: Delivery, ledger: &Mutex<Ledger>) {
    let (partition, offset) = (delivery.partition(), delivery.offset());
    match judge(delivery.value(), delivery.attempt()) {
        Verdict::Ack => {
            ledger.lock().acked(partition, offset);
            delivery.ack();
        }
        Verdict::Fail => {
            ledger.lock().failed();
            delivery.fail("the payment service does not answer");
        }
        Verdict::Reject(reason) => {
            ledger.lock().rejected(partition, offset);
            delivery.reject("malformed-order", reason);
        }
    }
}

fn judge(value: Option<&[u8]>, attempt: u32) -> Verdict {
    let order = match serde_json::from_slice::<Order>(value.unwrap_or_default()) {
        Ok(order) => order,
        Err(error) => return Verdict::Reject(error.to_string()),
    };
    let unlucky = order.number().is_some_and(|number| number % FAILS_IN == 7);
    if unlucky && attempt == 1 {
        Verdict::Fail
    } else {
        Verdict::Ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::orders::Orders;

    #[test]
    fn malformed_orders_are_rejected_with_the_reason() {
        for value in [None, Some(b"".as_slice()), Some(b"{\"order\":\"ORD-1\"")] {
            assert!(matches!(judge(value, 1), Verdict::Reject(reason) if !reason.is_empty()));
        }
    }

    #[test]
    fn some_orders_fail_once_and_none_fails_twice() {
        let mut failed = 0;
        for sample in Orders::new(7).take(1_000).filter(|sample| !sample.poison) {
            failed += u32::from(judge(Some(&sample.value), 1) == Verdict::Fail);
            assert_eq!(judge(Some(&sample.value), 2), Verdict::Ack);
        }
        assert!(failed > 10, "{failed}");
    }
}
