//! What batches wait for, on the wire.

use std::time::Duration;

use ackgate_proto::v1::{BatchOptions, Open};

use crate::support::{Case, Outgoing, Stage, Stream, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: single_record_is_pushed_at_once;
        embedded: records_wait_until_the_asked_part_of_a_batch_is_there,
            session_is_told_what_its_batches_wait_for;
    ]
}

const LONG: prost_types::Duration = prost_types::Duration {
    seconds: 60,
    nanos: 0,
};

fn asking(batch: BatchOptions) -> Open {
    Open {
        batch: Some(batch),
        ..Stream::hello("orders")
    }
}

// FC-77. Nothing follows that could push a record on: each one is alone in its batch,
// and comes before the next is written.
async fn single_record_is_pushed_at_once(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    for offset in 0..10 {
        stage.produce(&topic, &["x"]).await;
        let record = stream.record().await;
        assert_eq!(record.offset, offset);
        stream.ack(&record).await;
    }
    assert_eq!(stream.batches, [1; 10]);
}

async fn records_wait_until_the_asked_part_of_a_batch_is_there(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let open = asking(BatchOptions {
        max_records: 10,
        linger: Some(LONG),
        min_fill: 0.5,
        ..BatchOptions::default()
    });
    let mut stream = Stream::open(gateway.address, open).await;
    stage.produce(&topic, &["a"]).await;
    let early = stream.within(Duration::from_millis(500)).await;
    assert_eq!(early.len(), 0, "one is no half of ten");
    stage.produce(&topic, &["b", "c", "d", "e"]).await;
    assert_eq!(stream.records(5).await.len(), 5);
    let records = (0..10).map(|n| Outgoing::value(0, format!("{n}")));
    stage.broker.produce(&topic.name, records).await;
    stream.records(10).await;
    assert_eq!(stream.batches.first(), Some(&5), "together");
    assert!(
        stream.batches.iter().all(|count| (5..=10).contains(count)),
        "{:?}",
        stream.batches
    );
}

async fn session_is_told_what_its_batches_wait_for(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let subscription = stage
        .subscription(&topic)
        .set("batch.max_records", "7")
        .set("batch.linger", "\"3ms\"");
    let gateway = stage.gateway(&[subscription]).await;
    let told = |stream: &Stream| {
        stream
            .opened
            .clone()
            .unwrap()
            .settings
            .unwrap()
            .batch
            .unwrap()
    };
    let own = told(&gateway.open().await);
    let millis = |nanos| Some(prost_types::Duration { seconds: 0, nanos });
    let expected = BatchOptions {
        max_records: 7,
        max_bytes: 256 << 10,
        linger: millis(3_000_000),
        min_fill: 1.0,
    };
    assert_eq!(own, expected);
    let open = asking(BatchOptions {
        max_bytes: 4096,
        linger: millis(0),
        ..BatchOptions::default()
    });
    let asked = told(&Stream::open(gateway.address, open).await);
    let expected = BatchOptions {
        max_bytes: 4096,
        linger: millis(0),
        ..expected
    };
    assert_eq!(asked, expected);
}
