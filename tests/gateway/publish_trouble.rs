//! Publishing when something is slow, gone or about to stop: what was answered as written
//! is there exactly once, and nothing is piled up.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ackgate_proto::v1::{
    OutgoingRecord, PublishClose, PublishError, PublishOptions, PublishRecords, PublishRequest,
    PublishResult, publish_request::Request,
};
use prost_types::Duration as Wire;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};

use super::{
    publish::{error, open, publishing},
    support::{Broker, Case, PATIENCE, Publishing, Seen, Stage, Topic, cases, eventually, record},
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka:
            publisher_that_does_not_read_is_not_read_from,
            stop_in_the_middle_leaves_what_was_answered_exactly_once,
            broker_that_hangs_delays_records_and_loses_none;
        both:
            message_of_a_stream_that_breaks_is_written_to_its_end;
        embedded:
            stop_tells_publishers_and_ends_whatever_they_do,
            broker_that_is_gone_gets_what_waited_when_it_is_back,
            goodbye_says_how_long_to_wait_for_answers,
            refusals_of_the_broker_are_answered;
    ]
}

const PARTITIONS: usize = 3;

fn numbered(topic: &Topic, number: usize) -> OutgoingRecord {
    OutgoingRecord {
        partition: Some((number % PARTITIONS) as i32),
        ..record(topic, number.to_string())
    }
}

fn message(records: Vec<OutgoingRecord>) -> PublishRequest {
    PublishRequest {
        request: Some(Request::Records(PublishRecords { records })),
    }
}

/// Sends numbered records in messages of this many, up to `last` or until the stream
/// ends. Counts what has gone into the stream.
fn sends(
    requests: mpsc::Sender<PublishRequest>,
    topic: &Topic,
    each: usize,
    last: usize,
) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let (topic, counter) = (topic.clone(), Arc::clone(&sent));
    let sending = tokio::spawn(async move {
        for first in (0..last).step_by(each) {
            let records = (first..first + each).map(|number| numbered(&topic, number));
            if requests.send(message(records.collect())).await.is_err() {
                return;
            }
            counter.fetch_add(each, Ordering::Relaxed);
        }
    });
    (sending, sent)
}

/// Where the topic has each number. Fails if one is there twice.
fn once(seen: &[Seen]) -> BTreeMap<usize, (i32, i64)> {
    let mut places = BTreeMap::new();
    for seen in seen {
        let value = std::str::from_utf8(seen.value.as_deref().unwrap()).unwrap();
        let former = places.insert(value.parse().unwrap(), (seen.partition, seen.offset));
        assert_eq!(former, None, "{value} is there twice");
    }
    places
}

/// Checks that the topic has exactly what the results say.
fn agree(results: &[PublishResult], seen: &[Seen]) {
    let places = once(seen);
    for (number, result) in results.iter().enumerate() {
        let error = error(result);
        if error == PublishError::Unspecified {
            let place = result.partition.zip(result.offset);
            assert_eq!(place.as_ref(), places.get(&number), "{number}: {result:?}");
        } else if error != PublishError::TimedOut {
            assert_eq!(places.get(&number), None, "{number}: {result:?}");
        }
    }
    let beyond = places.keys().find(|number| **number >= results.len());
    assert_eq!(beyond, None, "it was not taken");
}

async fn publisher_that_does_not_read_is_not_read_from(stage: Stage) {
    const RECORDS: usize = 100_000;
    // Results carry the name, so that few of them fill the windows of the transport.
    let topic = stage.topic(&"slow".repeat(50), PARTITIONS as u16).await;
    let gateway = publishing(&stage, "clusters.main.publish.max_in_flight_records = 1000").await;
    let mut stream = open(&gateway).await;
    stream.records(vec![numbered(&topic, 0)]).await;
    stream.answered(1).await;
    let before = gateway.memory();
    stream.results.clear();
    let mut stream = open(&gateway).await;
    let (sending, sent) = sends(stream.sender(), &topic, 500, RECORDS);
    // Nothing is read: what the transport and both windows hold goes on its way, then
    // nothing moves any more.
    let mut last = (0, Instant::now());
    eventually("the stream is not read any further", async || {
        let now = sent.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
        let stands = now > 0 && last.1.elapsed() > Duration::from_secs(2);
        stands.then_some(()).ok_or_else(|| format!("{now} sent"))
    })
    .await;
    let sent = sent.load(Ordering::Relaxed);
    assert!((1000..RECORDS / 2).contains(&sent), "{sent} of {RECORDS}");
    let grown = gateway.memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    stream.answered(RECORDS).await;
    sending.await.unwrap();
    let closed = stream.close().await;
    assert_eq!(
        (closed.records, closed.written),
        (RECORDS as u64, RECORDS as u64)
    );
    // The very first record went over a stream of its own.
    let mut seen = stage.holds(&topic, RECORDS + 1).await;
    seen.retain(|seen| (seen.partition, seen.offset) != (0, 0));
    agree(&stream.results, &seen);
}

async fn stop_in_the_middle_leaves_what_was_answered_exactly_once(stage: Stage) {
    let topic = stage.topic("stop", PARTITIONS as u16).await;
    let mut gateway = publishing(&stage, "shutdown.drain = \"2s\"").await;
    let mut stream = open(&gateway).await;
    let (sending, _) = sends(stream.sender(), &topic, 100, usize::MAX - 100);
    stream.answered(5_000).await;
    gateway.terminate();
    let closed = stream.end().await;
    assert!(stream.draining, "it was told");
    assert!(closed.written >= 5_000, "{closed:?}");
    let fine = |result: &&PublishResult| error(result) == PublishError::Unspecified;
    let count = stream.results.iter().filter(fine).count();
    assert_eq!(closed.written, count as u64);
    assert_eq!(gateway.end().await.code(), Some(0), "{}", gateway.log());
    sending.abort();
    let seen = stage.broker.read(&topic.name).await;
    agree(&stream.results, &seen);
}

async fn broker_that_hangs_delays_records_and_loses_none(stage: Stage) {
    const RECORDS: usize = 1000;
    let own = spawn_blocking(Broker::own_kafka).await.unwrap();
    let stage = stage.on(own);
    let topic = stage.topic("hang", PARTITIONS as u16).await;
    let other = stage.topic("hasty", 1).await;
    let gateway = publishing(&stage, "").await;
    let mut patient = open(&gateway).await;
    patient
        .records((0..9).map(|number| numbered(&topic, number)).collect())
        .await;
    patient.answered(9).await;
    let hasty = PublishOptions {
        timeout: Some(Wire {
            seconds: 2,
            nanos: 0,
        }),
        ..PublishOptions::default()
    };
    let mut hasty = Publishing::open(gateway.address, hasty).await;
    hasty.records(vec![record(&other, "before")]).await;
    hasty.answered(1).await;

    stage.broker.tools().signal("STOP");
    let more = (9..RECORDS).map(|number| numbered(&topic, number));
    patient.records(more.collect()).await;
    let begin = Instant::now();
    hasty.records(vec![record(&other, "during"); 10]).await;
    let results = hasty.answered(11).await;
    assert!(
        begin.elapsed() > Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
    for result in results.iter().skip(1) {
        assert_eq!(error(result), PublishError::TimedOut, "{result:?}");
    }
    stage.broker.tools().signal("CONT");
    assert_eq!(patient.close().await.written, RECORDS as u64);
    let seen = stage.holds(&topic, RECORDS).await;
    agree(&patient.results, &seen);
    for partition in 0..PARTITIONS as i32 {
        let of = seen.iter().filter(|seen| seen.partition == partition);
        let values = of.map(|seen| String::from_utf8(seen.value.clone().unwrap()).unwrap());
        let numbers: Vec<usize> = values.map(|value| value.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "the order of a partition is kept");
    }
    hasty.records(vec![record(&other, "after")]).await;
    let result = hasty.answered(12).await[11].clone();
    assert_eq!(error(&result), PublishError::Unspecified, "{result:?}");
}

async fn broker_that_is_gone_gets_what_waited_when_it_is_back(stage: Stage) {
    let topic = stage.topic("gone", PARTITIONS as u16).await;
    let more = "clusters.main.publish.max_in_flight_records = 100";
    let gateway = publishing(&stage, more).await;
    let mut stream = open(&gateway).await;
    stream.records(vec![numbered(&topic, 0)]).await;
    stream.answered(1).await;
    stage.broker.faults().set_reachable(false).unwrap();
    let all = (1..1000).map(|number| numbered(&topic, number));
    stream.records(all.collect()).await;
    let quiet = tokio::time::timeout(Duration::from_secs(3), stream.pull()).await;
    assert!(quiet.is_err(), "nothing is known yet: {:?}", stream.results);
    stage.broker.faults().set_reachable(true).unwrap();
    let closed = stream.close().await;
    assert_eq!((closed.records, closed.written), (1000, 1000));
    agree(&stream.results, &stage.holds(&topic, 1000).await);
}

async fn goodbye_says_how_long_to_wait_for_answers(stage: Stage) {
    let topic = stage.topic("bye", PARTITIONS as u16).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = open(&gateway).await;
    stream.records(vec![numbered(&topic, 0)]).await;
    stream.answered(1).await;
    stage.broker.faults().set_reachable(false).unwrap();
    let more = (1..9).map(|number| numbered(&topic, number));
    stream.records(more.collect()).await;
    let begin = Instant::now();
    let timeout = Some(Wire {
        seconds: 2,
        nanos: 0,
    });
    stream.send(Request::Close(PublishClose { timeout })).await;
    let closed = stream.end().await;
    let took = begin.elapsed();
    assert_eq!((closed.written, closed.failed), (1, 8));
    for result in stream.results.iter().skip(1) {
        assert_eq!(error(result), PublishError::TimedOut, "{result:?}");
    }
    // Not at once, and long before the records' own time, 30 s.
    let wanted = Duration::from_secs(2)..Duration::from_secs(20);
    assert!(wanted.contains(&took), "{took:?}");
}

async fn message_of_a_stream_that_breaks_is_written_to_its_end(stage: Stage) {
    const RECORDS: usize = 3000;
    let topic = stage.topic("breaks", PARTITIONS as u16).await;
    let gateway = publishing(&stage, "clusters.main.publish.max_in_flight_records = 10").await;
    let mut stream = open(&gateway).await;
    let all = (0..RECORDS).map(|number| numbered(&topic, number));
    stream.records(all.collect()).await;
    stream.answered(10).await;
    drop(stream);
    let seen = stage.holds(&topic, RECORDS).await;
    assert_eq!(once(&seen).len(), RECORDS);
}

async fn stop_tells_publishers_and_ends_whatever_they_do(stage: Stage) {
    let topic = stage.topic("ends", PARTITIONS as u16).await;
    let mut gateway = publishing(&stage, "shutdown.drain = \"5s\"").await;
    let mut idle = open(&gateway).await;
    let mut good = open(&gateway).await;
    good.records(vec![numbered(&topic, 0)]).await;
    good.answered(1).await;
    // One that has said nothing, and one that reads nothing.
    let mut silent = Publishing::connect(gateway.address).await;
    let deaf = open(&gateway).await;
    let (sending, _) = sends(deaf.sender(), &topic, 100, usize::MAX - 100);
    gateway.terminate();
    let begin = Instant::now();
    while !good.draining {
        good.pull().await.expect("it is told first");
    }
    good.records(vec![numbered(&topic, 1)]).await;
    let result = good.answered(2).await[1].clone();
    assert_eq!(error(&result), PublishError::Unavailable, "{result:?}");
    let closed = good.close().await;
    assert_eq!((closed.written, closed.failed), (1, 1));
    assert_eq!(idle.end().await.records, 0);
    assert!(idle.draining);
    let status = silent.status().await;
    assert_eq!(super::support::reason(&status), "SHUTTING_DOWN");
    assert_eq!(gateway.end().await.code(), Some(0), "{}", gateway.log());
    assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
    sending.abort();
    drop(deaf);
}

async fn refusals_of_the_broker_are_answered(stage: Stage) {
    let topic = stage.topic("refused", 1).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = open(&gateway).await;
    stream.records(vec![record(&topic, "a")]).await;
    stream.answered(1).await;
    let refused = ackgate::broker::kafka::embedded::Refusable::Write;
    stage.broker.faults().refuse(refused, 1).unwrap();
    stream.records(vec![record(&topic, "b")]).await;
    let result = stream.answered(2).await[1].clone();
    assert_eq!(error(&result), PublishError::Refused, "{result:?}");
    assert!(!result.detail.is_empty());
    stream.records(vec![record(&topic, "c")]).await;
    let result = stream.answered(3).await[2].clone();
    assert_eq!(error(&result), PublishError::Unspecified, "{result:?}");
}
