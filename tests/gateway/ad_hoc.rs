//! Subscriptions that subscribers open without one in the configuration, and options
//! that contradict what runs.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use ackgate_proto::v1::{
    AdHoc, Delivery, Open, Order, Outcome, SubscriptionOptions, subscribe_request::Request,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::support::{
    Case, Gateway, Stage, Stream, Subscriber, Subscription, Topic, cases, eventually, reason,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: openings_that_cannot_be_are_refused_with_their_reason,
            contradicting_options_are_refused_by_name,
            opening_of_a_declared_subscription_attaches_to_it,
            verdicts_decide_the_commit_of_an_ad_hoc_group,
            stop_drains_what_was_opened_ad_hoc,
            command_line_opens_ad_hoc;
        kafka: topics_in_any_order_are_one_member_of_the_group,
            group_is_left_after_the_linger_and_free_for_other_topics;
    ]
}

const LINGER: Duration = Duration::from_secs(2);

/// A gateway where everything of the stage may be opened.
async fn open_gateway(stage: &Stage, subscriptions: &[Subscription]) -> Gateway {
    let own = stage.named("");
    let linger = LINGER.as_millis();
    let top = format!(
        "ad_hoc.clusters = [\"main\"]\n\
         ad_hoc.topics = [\"{own}*\"]\n\
         ad_hoc.groups = [\"{own}*\"]\n\
         ad_hoc.max_subscriptions = 2\n\
         ad_hoc.template.start = \"earliest\"\n\
         ad_hoc.template.order = \"none\"\n\
         ad_hoc.template.on_reject = \"drop\"\n\
         ad_hoc.template.linger = \"{linger}ms\"\n\
         ad_hoc.template.backoff = {{ initial = \"50ms\", max = \"50ms\" }}\n\
         ad_hoc.template.consumer.\"session.timeout.ms\" = \"6000\"\n\
         clusters.spare.address = \"kafka://127.0.0.1:9\"\n"
    );
    Gateway::start_with(stage, subscriptions, &top).await
}

fn ad_hoc(topics: &[&Topic], group: &str) -> Open {
    Open {
        ad_hoc: Some(AdHoc {
            cluster: "main".to_owned(),
            topics: topics.iter().map(|topic| topic.name.clone()).collect(),
            group: group.to_owned(),
            options: None,
        }),
        ..Stream::hello("")
    }
}

/// An opening with something in its ad hoc part changed.
fn with(open: &Open, change: impl FnOnce(&mut AdHoc)) -> Open {
    let mut open = open.clone();
    change(open.ad_hoc.as_mut().unwrap());
    open
}

async fn refused(address: SocketAddr, open: Open) -> Status {
    let mut stream = Stream::connect(address).await.unwrap();
    stream.send(Request::Open(open)).await;
    stream.status().await
}

/// The fields that a status blames.
fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|bad| &bad.field_violations);
    let violations = violations.into_iter().flatten();
    violations
        .map(|violation| format!("{}: {}", violation.field, violation.description))
        .collect()
}

/// Openings that name what nothing can be called.
fn wrong_names(good: &Open, topic: &Topic) -> Vec<(Open, &'static str)> {
    let many = vec![topic.name.clone(); 101];
    let another = |topic: &str| with(good, |it| it.topics.push(topic.to_owned()));
    vec![
        (with(good, |it| it.topics.clear()), "TOPICS_EMPTY"),
        (with(good, |it| it.topics = many), "TOO_MANY_TOPICS"),
        (another("a\0b"), "TOPIC_INVALID"),
        (another("a/b"), "TOPIC_INVALID"),
        (another(""), "TOPIC_INVALID"),
        (with(good, |it| it.group.clear()), "GROUP_INVALID"),
        (with(good, |it| it.group.push('\0')), "GROUP_INVALID"),
    ]
}

/// Openings of what the configuration does not have or allow.
fn not_allowed(good: &Open) -> Vec<(Open, &'static str, Code)> {
    let cluster = |name: &str| with(good, |it| it.cluster = name.to_owned());
    let elsewhere = || "elsewhere".to_owned();
    let none = SubscriptionOptions {
        max_attempts: Some(0),
        ..SubscriptionOptions::default()
    };
    let two = Open {
        subscription: "orders".to_owned(),
        ..good.clone()
    };
    let denied = |open| (open, "AD_HOC_DENIED", Code::PermissionDenied);
    vec![
        (cluster("nowhere"), "UNKNOWN_CLUSTER", Code::NotFound),
        denied(cluster("spare")),
        denied(with(good, |it| it.topics.push(elsewhere()))),
        denied(with(good, |it| it.group = elsewhere())),
        (
            with(good, |it| it.options = Some(none)),
            "OPTIONS_INVALID",
            Code::InvalidArgument,
        ),
        (two, "OPEN_INVALID", Code::InvalidArgument),
    ]
}

async fn openings_that_cannot_be_are_refused_with_their_reason(stage: Stage) {
    let topic = stage.topic("a", 1).await;
    let gateway = open_gateway(&stage, &[]).await;
    let good = ad_hoc(&[&topic], &stage.group());
    let names = wrong_names(&good, &topic).into_iter();
    let names = names.map(|(open, reason)| (open, reason, Code::InvalidArgument));
    for (open, expected, code) in names.chain(not_allowed(&good)) {
        let what = format!("{:?}", open.ad_hoc);
        let status = refused(gateway.address, open).await;
        assert_eq!(
            (reason(&status).as_str(), status.code()),
            (expected, code),
            "{what}"
        );
    }
    let held = [
        Stream::open(gateway.address, good.clone()).await,
        Stream::open(gateway.address, ad_hoc(&[&topic], &stage.named("g2"))).await,
    ];
    let status = refused(gateway.address, ad_hoc(&[&topic], &stage.named("g3"))).await;
    assert_eq!(reason(&status), "TOO_MANY_AD_HOC");
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(held);

    let closed = stage.gateway(&[stage.subscription(&topic)]).await;
    let status = refused(closed.address, good).await;
    assert_eq!(
        (reason(&status).as_str(), status.code()),
        ("AD_HOC_OFF", Code::PermissionDenied)
    );
}

async fn contradicting_options_are_refused_by_name(stage: Stage) {
    let topic = stage.topic("a", 1).await;
    let gateway = open_gateway(&stage, &[stage.subscription(&topic).max_attempts(3)]).await;
    let expect = SubscriptionOptions {
        delivery: Delivery::Competing.into(),
        order: Order::Lane.into(),
        max_attempts: Some(4),
        ..SubscriptionOptions::default()
    };
    let mut named = Stream::hello("orders");
    named.expect = Some(expect.clone());
    let status = refused(gateway.address, named.clone()).await;
    assert_eq!(
        (reason(&status).as_str(), status.code()),
        ("OPTIONS_CONTRADICT", Code::FailedPrecondition)
    );
    assert_eq!(
        fields(&status),
        [
            "open.expect.order: wanted lane, and the subscription runs with none",
            "open.expect.max_attempts: wanted 4, and the subscription runs with 3",
        ]
    );
    let agreed = SubscriptionOptions {
        order: Order::None.into(),
        max_attempts: Some(3),
        ..expect.clone()
    };
    named.expect = Some(agreed);
    let stream = Stream::open(gateway.address, named).await;
    let settings = stream.opened.clone().unwrap().settings.unwrap();
    assert_eq!(
        (settings.delivery(), settings.order()),
        (Delivery::Competing, Order::None)
    );
    stream.close().await;

    // The first opening shapes it, a second one may only agree.
    let first = with(&ad_hoc(&[&topic], &stage.named("g2")), |it| {
        it.options = Some(expect)
    });
    let running = Stream::open(gateway.address, first.clone()).await;
    let settings = running.opened.clone().unwrap().settings.unwrap();
    assert_eq!((settings.order(), settings.max_attempts), (Order::Lane, 4));
    let agreeing = Stream::open(gateway.address, first.clone()).await;
    let other = with(&first, |it| {
        it.options.as_mut().unwrap().max_attempts = Some(5)
    });
    let status = refused(gateway.address, other).await;
    assert_eq!(reason(&status), "OPTIONS_CONTRADICT");
    assert_eq!(
        fields(&status),
        ["open.ad_hoc.options.max_attempts: wanted 5, and the subscription runs with 4"]
    );
    agreeing.close().await;
    running.close().await;
}

async fn opening_of_a_declared_subscription_attaches_to_it(stage: Stage) {
    let topic = stage.topic("a", 1).await;
    stage.produce(&topic, &["one", "two"]).await;
    let gateway = open_gateway(&stage, &[stage.subscription(&topic)]).await;
    let few = Open {
        credit: Some(ackgate_proto::v1::Credit {
            records: 1,
            bytes: 1 << 20,
        }),
        ..ad_hoc(&[&topic], &stage.group())
    };
    let mut unnamed = Stream::open(gateway.address, few).await;
    let first = unnamed.record().await;
    let mut named = gateway.open().await;
    let second = named.record().await;
    assert_eq!(
        BTreeSet::from([first.offset, second.offset]),
        BTreeSet::from([0, 1]),
        "they compete"
    );
    unnamed.ack(&first).await;
    named.ack(&second).await;
    stage.commits(&topic, 0, 2).await;
    let other = stage.topic("b", 1).await;
    let status = refused(gateway.address, ad_hoc(&[&topic, &other], &stage.group())).await;
    assert_eq!(reason(&status), "GROUP_TAKEN");
}

async fn verdicts_decide_the_commit_of_an_ad_hoc_group(stage: Stage) {
    let one = stage.topic("a", 1).await;
    let other = stage.topic("b", 1).await;
    stage.produce(&one, &["a0", "a1"]).await;
    stage.produce(&other, &["b0"]).await;
    let gateway = open_gateway(&stage, &[]).await;
    let mut stream = Stream::open(gateway.address, ad_hoc(&[&other, &one], &stage.group())).await;
    let records = stream.records(3).await;
    let texts: BTreeSet<&str> = records.iter().map(|record| record.text()).collect();
    assert_eq!(texts, BTreeSet::from(["a0", "a1", "b0"]));
    let failed = records.iter().find(|record| record.text() == "a1").unwrap();
    stream.fail(failed).await;
    let again = stream.record().await;
    assert_eq!((again.text(), again.attempt), ("a1", 2));
    let rest = records.iter().filter(|record| record.text() != "a1");
    let rest: Vec<_> = rest.cloned().collect();
    stream.answer_all(&rest, Outcome::Acked).await;
    stream.reject(&again).await;
    stage.commits(&one, 0, 2).await;
    stage.commits(&other, 0, 1).await;
}

async fn stop_drains_what_was_opened_ad_hoc(stage: Stage) {
    let topic = stage.topic("a", 1).await;
    stage.produce(&topic, &["one"]).await;
    let mut gateway = open_gateway(&stage, &[]).await;
    let mut stream = Stream::open(gateway.address, ad_hoc(&[&topic], &stage.group())).await;
    let record = stream.record().await;
    gateway.terminate();
    stream.drain().await;
    stream.ack(&record).await;
    let status = stream.status().await;
    assert_eq!(reason(&status), "SHUTTING_DOWN");
    assert!(gateway.end().await.success());
    assert_eq!(stage.committed(&topic, 0).await, Some(1));
}

async fn command_line_opens_ad_hoc(stage: Stage) {
    let topic = stage.topic("a", 1).await;
    stage.produce(&topic, &["one", "two"]).await;
    let gateway = open_gateway(&stage, &[]).await;
    let group = stage.group();
    let arguments = [
        "--cluster",
        "main",
        "--topic",
        &topic.name,
        "--group",
        &group,
    ];
    let more = [
        "--max",
        "2",
        "--batch-linger",
        "10ms",
        "--batch-records",
        "2",
    ];
    let mut subscriber =
        Subscriber::start_at(gateway.address, &[arguments.as_slice(), &more].concat());
    assert!(subscriber.end().await.success());
    assert_eq!(subscriber.take().len(), 2);
    stage.commits(&topic, 0, 2).await;
}

/// Members of the group, as Kafka's own tool counts them.
fn members(stage: &Stage) -> usize {
    let group = stage.group();
    let arguments = ["--describe", "--members", "--group", &group];
    let printed = stage.broker.tools().tool("consumer-groups", &arguments);
    printed
        .lines()
        .filter(|line| line.starts_with(&group))
        .count()
}

async fn has_members(stage: &Stage, count: usize) {
    eventually(&format!("the group has {count} members"), async || {
        let seen = members(stage);
        if seen == count {
            Ok(())
        } else {
            Err(seen.to_string())
        }
    })
    .await;
}

async fn topics_in_any_order_are_one_member_of_the_group(stage: Stage) {
    let one = stage.topic("a", 1).await;
    let other = stage.topic("b", 1).await;
    let gateway = open_gateway(&stage, &[]).await;
    let group = stage.group();
    let mut first = Stream::open(gateway.address, ad_hoc(&[&one, &other], &group)).await;
    let mut second = Stream::open(gateway.address, ad_hoc(&[&other, &one, &other], &group)).await;
    for stream in [&mut first, &mut second] {
        for topic in [&one, &other] {
            let kind = ackgate_proto::v1::LaneEventKind::Assigned;
            stream
                .event("assigns a lane of each topic", |event| {
                    event.kind() == kind && event.topic == topic.name
                })
                .await;
        }
    }
    assert_eq!(members(&stage), 1, "one consumer for both");
    stage.produce(&one, &["x"]).await;
    let status = refused(gateway.address, ad_hoc(&[&one], &group)).await;
    assert_eq!(
        (reason(&status).as_str(), status.code()),
        ("GROUP_TAKEN", Code::FailedPrecondition)
    );
}

async fn group_is_left_after_the_linger_and_free_for_other_topics(stage: Stage) {
    let one = stage.topic("a", 1).await;
    let other = stage.topic("b", 1).await;
    stage.produce(&one, &["x"]).await;
    stage.produce(&other, &["y"]).await;
    let gateway = open_gateway(&stage, &[]).await;
    let mut stream = Stream::open(gateway.address, ad_hoc(&[&one], &stage.group())).await;
    let record = stream.record().await;
    stream.ack(&record).await;
    has_members(&stage, 1).await;
    stream.close().await;
    // Within the linger it is still there for the same topics.
    let mut again = Stream::open(gateway.address, ad_hoc(&[&one], &stage.group())).await;
    stage.produce(&one, &["z"]).await;
    let record = again.record().await;
    again.ack(&record).await;
    again.close().await;
    has_members(&stage, 0).await;
    gateway.logs("ad hoc subscription ended").await;
    let mut changed = Stream::open(gateway.address, ad_hoc(&[&other], &stage.group())).await;
    assert_eq!(changed.record().await.text(), "y");
}
