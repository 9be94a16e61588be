//! A call and the end of the gateway.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    broker::{Error, Flushed, Outgoing, Receipt, Write},
    config::{Acks, Publish},
    publish::{Make, Terms},
};

/// A producer that keeps what it is given and answers nothing.
#[derive(Debug, Default)]
struct Silent(Mutex<Vec<Receipt>>);

impl Write for Silent {
    fn enqueue(&self, _: &Outgoing, receipt: Receipt) -> Result<(), Receipt> {
        self.0.lock().push(receipt);
        Ok(())
    }

    fn flushed(&self, _: Duration) -> Flushed {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[derive(Debug)]
struct Maker(Arc<Silent>);

impl Make for Maker {
    fn make(&self, _: &Publish, _: Terms) -> Result<Arc<dyn Write>, Error> {
        Ok(Arc::clone(&self.0) as _)
    }
}

#[tokio::test(start_paused = true)]
async fn call_is_answered_for_every_record_when_the_drain_is_over() {
    let silent = Arc::new(Silent::default());
    let publish = Publish {
        cluster: "main".to_owned(),
        topics: vec!["t".to_owned()],
        reserved: Vec::new(),
        acks: Acks::All,
        idempotence: None,
        max_record_bytes: 1 << 20,
        max_in_flight_records: 10,
        max_in_flight_bytes: 1 << 20,
        producer_properties: Vec::new(),
    };
    let make = Arc::new(Maker(Arc::clone(&silent))) as Arc<dyn Make>;
    let desk = Desk::new(vec!["main".to_owned()], vec![publish], &make);
    let record = v1::OutgoingRecord {
        topic: "t".to_owned(),
        ..v1::OutgoingRecord::default()
    };
    let request = v1::PublishBatchRequest {
        options: None,
        records: vec![record; 25],
    };
    let calling = desk.clone();
    let call = tokio::spawn(async move { batch(&calling, request).await });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(silent.0.lock().len(), 10, "as many as may be under way");
    let begin = Instant::now();
    desk.stop(Duration::from_secs(5)).await;
    assert!(call.is_finished(), "the stop waits for its answer");
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    let answer = call.await.expect("it ends").expect("it is answered");
    let errors: Vec<_> = answer.results.iter().map(|it| it.error()).collect();
    let [unknown, refused] = [v1::PublishError::TimedOut, v1::PublishError::Unavailable];
    assert_eq!(errors, [vec![unknown; 10], vec![refused; 15]].concat());
}
