//! Which records are handed out at all, and when: age, filter, content.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ackgate_proto::v1::Outcome;
use tonic::Code;

use crate::support::{Case, Outgoing, Process, Stage, Stream, ackgate, cases, reason};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: filtered_records_are_passed_and_the_others_come,
            refused_content_is_dead_lettered_with_its_cause,
            records_wait_until_they_are_old_enough;
        embedded: record_that_is_too_old_is_dead_lettered_and_never_handed_out,
            filter_of_a_subscriber_must_be_the_subscriptions,
            subscribers_of_a_broadcast_have_filters_of_their_own,
            filter_that_does_not_parse_is_refused_at_the_start;
    ]
}

/// Milliseconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn record(key: &str, kind: Option<&str>, value: &str) -> Outgoing {
    Outgoing {
        key: Some(key.into()),
        value: Some(value.into()),
        headers: kind
            .map(|kind| ("kind".to_owned(), Some(kind.into())))
            .into_iter()
            .collect(),
        ..Outgoing::default()
    }
}

// A24, A100, C31.
async fn filtered_records_are_passed_and_the_others_come(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let records = [
        record("eu-1", Some("order"), "wanted by header"),
        record("us-1", Some("refund"), "not wanted"),
        record("eu-2", None, "not wanted"),
        record("vip-1", None, "wanted by key"),
        record("us-2", Some("refund"), "not wanted"),
    ];
    stage.broker.produce(&topic.name, records).await;
    let filter = "key.startsWith('vip-') || has(headers.kind) && 'order' in headers.kind";
    let subscription = stage
        .subscription(&topic)
        .set("filter", &format!("\"{filter}\""));
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.filter = format!(" {filter} ");
    let mut stream = Stream::open(gateway.address, open).await;
    let received = stream.records(2).await;
    let offsets: Vec<i64> = received.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 3]);
    stream.answer_all(&received, Outcome::Acked).await;
    // The last two settled without anybody.
    stage.commits(&topic, 0, 5).await;
    assert_eq!(stream.within(Duration::from_millis(300)).await.len(), 0);
}

// C29, W-C1, W-C2.
async fn refused_content_is_dead_lettered_with_its_cause(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["{}", "{\"cut", "[1]"]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("content.check", "\"json\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let received = stream.records(2).await;
    let offsets: Vec<i64> = received.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 2], "its neighbours are not withheld");
    let letter = stage.holds(&dead, 1).await.remove(0);
    assert_eq!(letter.value.as_deref(), Some(&b"{\"cut"[..]));
    for (name, value) in [
        ("cause", "content"),
        ("offset", "1"),
        ("attempts", "0"),
        ("deliveries", "0"),
    ] {
        let header = letter.header(&format!("ackgate.dead-letter.{name}"));
        assert_eq!(header, Some(value), "{name}");
    }
    stream.answer_all(&received, Outcome::Acked).await;
    stage.commits(&topic, 0, 3).await;
}

// C27, C28, W-C3.
async fn records_wait_until_they_are_old_enough(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    // An hour is needed; two of them become old enough a while from now.
    let hour = 3_600_000;
    let soon = now() - hour + 3000;
    let aged = |timestamp| Outgoing {
        timestamp: Some(timestamp),
        ..Outgoing::value(0, "x")
    };
    let records = [soon - hour, soon, soon - hour, soon + hour].map(aged);
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage.subscription(&topic).set("min_age", "\"1h\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let received = stream.records(3).await;
    assert!(now() - soon >= hour, "not before its time");
    let offsets: Vec<i64> = received.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2], "an older one waits behind it");
    stream.answer_all(&received, Outcome::Acked).await;
    // Up to the one that is held, and no further.
    stage.commits(&topic, 0, 3).await;
    assert_eq!(stream.within(Duration::from_millis(300)).await.len(), 0);
    stream.close().await;
    assert_eq!(stage.committed(&topic, 0).await, Some(3));
}

// FC-39.
async fn record_that_is_too_old_is_dead_lettered_and_never_handed_out(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let aged = |timestamp: i64, value: &str| Outgoing {
        timestamp: Some(timestamp),
        ..Outgoing::value(0, value)
    };
    let soon = Duration::from_millis(1500);
    let begun = Instant::now();
    let records = [
        aged(now() - 7_200_000, "old"),
        aged(now(), "young"),
        aged(now() - 3_600_000 + 1500, "old soon"),
    ];
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("max_age", "\"1h\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.credit.as_mut().unwrap().records = 1;
    let mut stream = Stream::open(gateway.address, open).await;
    let young = stream.record().await;
    assert_eq!(young.offset, 1);
    // The third waits for credit until it is too old.
    let left = soon.saturating_sub(begun.elapsed()) + Duration::from_millis(100);
    assert_eq!(stream.within(left).await.len(), 0);
    stream.ack(&young).await;
    let mut letters = stage.holds(&dead, 2).await;
    letters.sort_by_key(|letter| {
        letter
            .header("ackgate.dead-letter.offset")
            .map(str::to_owned)
    });
    for (letter, offset) in letters.iter().zip(["0", "2"]) {
        assert_eq!(letter.header("ackgate.dead-letter.offset"), Some(offset));
        assert_eq!(letter.header("ackgate.dead-letter.cause"), Some("expired"));
    }
    stage.commits(&topic, 0, 3).await;
    assert_eq!(stream.within(Duration::from_millis(300)).await.len(), 0);
}

#[allow(clippy::too_many_lines, reason = "one story, told in order")]
async fn filter_of_a_subscriber_must_be_the_subscriptions(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let plain = stage.subscription(&topic);
    let filtered = crate::support::Subscription::new("big", &topic.name, &stage.named("big"))
        .set("filter", "\"key == 'a'\"");
    let gateway = stage.gateway(&[plain, filtered]).await;
    let long = format!("key == '{}'", "x".repeat(5000));
    let deep = "(".repeat(4000);
    for (subscription, filter, code, expected, says) in [
        (
            "orders",
            "key == 'a'",
            Code::FailedPrecondition,
            "OPTIONS_CONTRADICT",
            "has none",
        ),
        (
            "big",
            "key == 'b'",
            Code::FailedPrecondition,
            "OPTIONS_CONTRADICT",
            "is not the filter",
        ),
        (
            "big",
            "key ==",
            Code::InvalidArgument,
            "OPEN_INVALID",
            "line 1, column",
        ),
        (
            "big",
            "colour == 1",
            Code::InvalidArgument,
            "OPEN_INVALID",
            "no name \"colour\"",
        ),
        (
            "big",
            &long,
            Code::InvalidArgument,
            "OPEN_INVALID",
            "at most 4096 bytes",
        ),
        (
            "big",
            &deep,
            Code::InvalidArgument,
            "OPEN_INVALID",
            "nested too deeply",
        ),
    ] {
        let mut stream = Stream::connect(gateway.address).await.unwrap();
        let mut open = Stream::hello(subscription);
        open.filter = filter.to_owned();
        stream
            .send(ackgate_proto::v1::subscribe_request::Request::Open(open))
            .await;
        let status = stream.status().await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (code, expected),
            "{status:?}"
        );
        assert!(status.message().contains("open.filter"), "{status:?}");
        assert!(status.message().contains(says), "{status:?}");
    }
    // The same, and none at all.
    for filter in ["key == 'a'", ""] {
        let mut open = Stream::hello("big");
        open.filter = filter.to_owned();
        Stream::open(gateway.address, open).await.close().await;
    }
    let mut refused = Process::start(
        "ackgate sub",
        Command::new(ackgate())
            .args(["sub", "big", "--filter", "key == 'b'", "--address"])
            .arg(gateway.address.to_string()),
    );
    assert!(!refused.end().await.success());
    assert!(
        refused.err().contains("is not the filter"),
        "{}",
        refused.err()
    );
}

async fn subscribers_of_a_broadcast_have_filters_of_their_own(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let keys = ["eu", "us", "eu", "us"].map(|key| record(key, None, "x"));
    stage.broker.produce(&topic.name, keys).await;
    let subscription = stage
        .subscription(&topic)
        .set("delivery", "\"broadcast\"")
        .set("order", "\"lane\"")
        .set("min_subscribers", "2");
    let gateway = stage.gateway(&[subscription]).await;
    let mut streams = Vec::new();
    for key in ["eu", "us"] {
        let mut open = Stream::hello("orders");
        open.filter = format!("key == '{key}'");
        streams.push(Stream::open(gateway.address, open).await);
    }
    for (stream, wanted) in streams.iter_mut().zip([[0, 2], [1, 3]]) {
        let received = stream.records(2).await;
        let offsets: Vec<i64> = received.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, wanted);
        stream.answer_all(&received, Outcome::Acked).await;
    }
    stage.commits(&topic, 0, 4).await;
    for stream in &mut streams {
        assert_eq!(stream.within(Duration::from_millis(200)).await.len(), 0);
    }
}

async fn filter_that_does_not_parse_is_refused_at_the_start(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let subscription = stage.subscription(&topic).set("filter", "\"key == \"");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], crate::support::free_port()));
    let bootstrap = stage.broker.bootstrap();
    let file = crate::support::render(address, &bootstrap, &[subscription], "");
    let path = stage.folder().join("refused.toml");
    fs::write(&path, file).unwrap();
    let mut process = Process::start(
        "ackgate serve",
        Command::new(ackgate())
            .arg("serve")
            .arg("--config")
            .arg(&path),
    );
    assert!(!process.end().await.success());
    let said = process.err();
    assert!(
        said.contains("subscriptions.orders.filter") && said.contains("line 1, column"),
        "{said}"
    );
}
