//! Never more out than was granted, and nothing lost, stuck or hoarded meanwhile.

use std::{collections::BTreeSet, time::Duration};

use ackgate_proto::v1::{Credit, Outcome, Settle, SubscribeRequest, subscribe_request::Request};

use crate::support::{
    Case, Gateway, Outgoing, Stage, Stream, Subscription, cases, connection, throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: no_more_is_out_than_was_granted,
            stuck_subscriber_costs_no_membership;
        embedded: zero_credit_pauses_until_more_is_granted,
            credit_in_bytes_bounds_what_is_out,
            record_above_the_whole_credit_comes_alone,
            single_record_is_pushed_at_once,
            subscriber_that_reads_may_settle_each_record_alone,
            subscriber_that_takes_nothing_is_given_up,
            stream_that_stops_reading_leaves_its_connection_to_others;
        kafka: subscriber_that_never_reads_costs_bounded_memory;
    ]
}

const QUIET: Duration = Duration::from_millis(700);

async fn numbers(stage: &Stage, topic: &crate::support::Topic, count: usize) {
    stage
        .broker
        .produce(
            &topic.name,
            (0..count).map(|n| Outgoing::value(0, format!("{n}"))),
        )
        .await;
}

async fn with_credit(gateway: &Gateway, records: u32, bytes: u64) -> Stream {
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit { records, bytes });
    Stream::open(gateway.address, open).await
}

// L8.
async fn no_more_is_out_than_was_granted(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 20).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = with_credit(&gateway, 3, 1 << 20).await;
    let mut out = stream.records(3).await;
    assert_eq!(stream.within(QUIET).await.len(), 0, "more than the credit");

    stream.ack(&out.remove(0)).await;
    out.push(stream.record().await);
    assert_eq!(
        stream.within(QUIET).await.len(),
        0,
        "one verdict frees one record"
    );

    // A delayed retry is not out: its place is free.
    let mut failed = out.remove(0).verdict(Outcome::Failed);
    failed.retry_after = Some(prost_types::Duration {
        seconds: 600,
        nanos: 0,
    });
    assert_eq!(stream.settle(vec![failed]).await.answers, []);
    assert_eq!(stream.record().await.offset, 4);
    assert_eq!(stream.within(QUIET).await.len(), 0);
}

async fn zero_credit_pauses_until_more_is_granted(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 5).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut open = Stream::hello("orders");
    open.credit = None;
    let mut stream = Stream::open(gateway.address, open).await;
    assert_eq!(
        stream.within(Duration::from_secs(5)).await.len(),
        0,
        "no credit was granted"
    );

    stream.credit(2, 1 << 20).await;
    let two = stream.records(2).await;
    stream.credit(0, 0).await;
    stream.answer_all(&two, Outcome::Acked).await;
    assert_eq!(stream.within(QUIET).await.len(), 0, "zero pauses");

    stream.credit(10, 1 << 20).await;
    assert_eq!(stream.records(3).await[0].offset, 2);
}

async fn credit_in_bytes_bounds_what_is_out(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let kilobyte = vec![b'x'; 1_000];
    let records = (0..10).map(|_| Outgoing::value(0, kilobyte.clone()));
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = with_credit(&gateway, 100, 3_500).await;
    let out = stream.records(3).await;
    assert_eq!(stream.within(QUIET).await.len(), 0, "a fourth does not fit");
    stream.answer_all(&out, Outcome::Acked).await;
    assert_eq!(stream.records(3).await[0].offset, 3);
}

async fn record_above_the_whole_credit_comes_alone(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let records = [
        Outgoing::value(0, "small"),
        Outgoing::value(0, vec![b'x'; 50_000]),
        Outgoing::value(0, "small"),
    ];
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = with_credit(&gateway, 100, 1_000).await;
    for offset in 0..3 {
        let record = stream.record().await;
        assert_eq!(record.offset, offset);
        assert_eq!(stream.within(QUIET).await.len(), 0, "beside {offset}");
        stream.ack(&record).await;
    }
}

// FC-77.
async fn single_record_is_pushed_at_once(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    for offset in 0..10 {
        // The next is written only once this one has come: none waits for another.
        numbers(&stage, &topic, 1).await;
        assert_eq!(stream.record().await.offset, offset);
    }
}

// FC-26.
async fn stuck_subscriber_costs_no_membership(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 10).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_secs(120))
        .revoke_drain(Duration::from_secs(1))
        .consumer_property("session.timeout.ms", "6000")
        .consumer_property("max.poll.interval.ms", "6000");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = with_credit(&gateway, 5, 1 << 20).await;
    let held = stream.records(5).await;
    // More than twice the poll interval.
    assert_eq!(stream.within(Duration::from_secs(14)).await.len(), 0);
    stream.answer_all(&held, Outcome::Acked).await;
    let rest = stream.records(5).await;
    assert_eq!(rest[0].lane, held[0].lane, "the lane was assigned anew");
    stream.answer_all(&rest, Outcome::Acked).await;
    stage.commits(&topic, 0, 10).await;
}

// FC-74, L14.
async fn subscriber_that_never_reads_costs_bounded_memory(stage: Stage) {
    const MIB: u64 = 1 << 20;
    let topic = stage.topic("orders", 4).await;
    let value = vec![b'x'; 10_000];
    for partition in 0..4 {
        let records = (0..6_000).map(|_| Outgoing::value(partition, value.clone()));
        stage.broker.produce(&topic.name, records).await;
    }
    let subscription = stage
        .subscription(&topic)
        .set("window.records", "24000")
        .set("window.span", "24000")
        .set("window.bytes", "\"8MiB\"")
        .ack_deadline(Duration::from_secs(600));
    let busy = stage.topic("busy", 1).await;
    let other = Subscription::new("busy", &busy.name, &stage.named("busy-group"))
        .set("window.bytes", "\"1MiB\"");
    let top = "memory = \"32MiB\"\nlog.filter = \"ackgate=debug,info\"";
    let gateway = Gateway::start_with(&stage, &[subscription, other], top).await;
    let before = gateway.memory();

    // 240 MB of credit against a client that takes nothing off its socket.
    let mut deaf = Stream::connect(gateway.address).await.unwrap();
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit {
        records: 1_000_000,
        bytes: 1 << 30,
    });
    deaf.send(Request::Open(open)).await;
    // The budget, the client library's own queue, the socket, and what they cost
    // beyond their payload.
    let allowed = before + 128 * MIB;
    throughout("memory grows", Duration::from_secs(10), async || {
        let now = gateway.memory();
        if now < allowed {
            Ok(())
        } else {
            Err(format!("{} MiB", now / MIB))
        }
    })
    .await;

    gateway.logs("lane is not fetched for want of memory").await;

    // Others have what is theirs all the while.
    let mut neighbour = Stream::open(gateway.address, Stream::hello("busy")).await;
    for round in 0..20 {
        numbers(&stage, &busy, 50).await;
        let got = neighbour.records(50).await;
        assert_eq!(got[0].offset, round * 50);
        neighbour.answer_all(&got, Outcome::Acked).await;
    }

    // It was only slow: everything it has missed is there when it reads.
    let first = deaf.records(100).await;
    deaf.answer_all(&first, Outcome::Acked).await;
}

// A flood of small messages once outran their answers and ended the session.
async fn subscriber_that_reads_may_settle_each_record_alone(stage: Stage) {
    const COUNT: u64 = 1_500;
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, COUNT as usize).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = Stream::open(gateway.address, Stream::hello("orders")).await;
    let records = stream.records(COUNT as usize).await;
    let sender = stream.sender();
    let settles = tokio::spawn(async move {
        for (sequence, record) in (1..).zip(&records) {
            let request = Some(Request::Settle(Settle {
                sequence,
                verdicts: vec![record.verdict(Outcome::Acked)],
            }));
            sender.send(SubscribeRequest { request }).await.unwrap();
        }
    });
    for sequence in 1..=COUNT {
        assert_eq!(stream.answer(sequence).await.answers, []);
    }
    settles.await.unwrap();
    stage.commits(&topic, 0, COUNT as i64).await;
}

// L14.
async fn subscriber_that_takes_nothing_is_given_up(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let value = vec![b'x'; 50_000];
    let records = (0..80).map(|_| Outgoing::value(0, value.clone()));
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_secs(5));
    let gateway = stage.gateway(&[subscription]).await;
    let deaf = Stream::connect(gateway.address).await.unwrap();
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit {
        records: 1_000_000,
        bytes: 1 << 30,
    });
    deaf.send(Request::Open(open)).await;
    gateway.logs("subscriber attached").await;
    let mut healthy = Stream::open(gateway.address, Stream::hello("orders")).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 80 {
        let record = healthy.record().await;
        healthy.settle(vec![record.verdict(Outcome::Acked)]).await;
        seen.insert(record.offset);
    }
    stage.commits(&topic, 0, 80).await;
    drop(deaf);
}

// FC-73: what a stream leaves unread takes its own window, not the connection's.
async fn stream_that_stops_reading_leaves_its_connection_to_others(stage: Stage) {
    let large = stage.topic("large", 4).await;
    let small = stage.topic("small", 1).await;
    let value = vec![b'x'; 64 << 10];
    for partition in 0..4 {
        let records = (0..60).map(|_| Outgoing::value(partition, value.clone()));
        stage.broker.produce(&large.name, records).await;
    }
    let of_large = stage
        .subscription(&large)
        .ack_deadline(Duration::from_secs(600));
    let of_small = Subscription::new("small", &small.name, &stage.named("small-group"));
    let gateway = stage.gateway(&[of_large, of_small]).await;
    let connection = connection(gateway.address).await.unwrap();
    // 15 MB, several times the window of the connection, and nobody reads them.
    let mut deaf = Stream::open_over(connection.clone(), Stream::hello("orders")).await;
    let mut alert = Stream::open_over(connection, Stream::hello("small")).await;
    for offset in 0..20 {
        stage
            .broker
            .produce(&small.name, [Outgoing::value(0, vec![b'y'; 1_000])])
            .await;
        let record = alert.record().await;
        assert_eq!(record.offset, offset);
        alert.ack(&record).await;
    }
    // And nothing is lost of what waited.
    assert_eq!(deaf.records(240).await.len(), 240);
}
