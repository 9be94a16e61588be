//! Records in one call, and its one answer.

use std::sync::Arc;

use ackgate_proto::v1;
use tokio::time::sleep_until;
use tonic::Status;

use super::{
    opening::{self, Opening, check_number},
    record,
};
use crate::publish::{Desk, Feed};

/// Writes the records of one call.
///
/// # Errors
/// The request breaks a rule; nothing was written.
pub(in crate::session) async fn batch(
    desk: &Desk,
    request: v1::PublishBatchRequest,
) -> Result<v1::PublishBatchResponse, Status> {
    let _entered = desk.enter();
    let number = request.records.len();
    check_number(number, "records")?;
    let options = request.options.unwrap_or_default();
    let Opening {
        place,
        terms,
        producer,
    } = opening::open(desk, &options, "options").await?;
    let max_record_bytes = place.publish().max_record_bytes;
    let ledger = place.ledger(terms.timeout);
    let mut feed = Feed::new(place, producer, Arc::clone(&ledger), desk.drain());
    let draft = |record| record::draft(record, max_record_bytes);
    let take = feed.take(request.records.into_iter().map(draft));
    let mut results = Vec::with_capacity(number);
    let collect = async {
        let mut drain = desk.drain();
        let over = async {
            match drain.wait_for(Option::is_some).await.map(|until| *until) {
                Ok(Some(until)) => sleep_until(until).await,
                Ok(None) | Err(_) => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let mut is_over = false;
        while results.len() < number {
            tokio::select! {
                biased;
                () = &mut over, if !is_over => {
                    is_over = true;
                    ledger.give_up();
                }
                run = ledger.next() => {
                    ledger.told(run.results.len());
                    results.extend(run.results.into_iter().map(record::result));
                }
            }
        }
    };
    tokio::join!(take, collect);
    Ok(v1::PublishBatchResponse { results })
}

#[cfg(test)]
mod tests;
