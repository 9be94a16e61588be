//! Sessions: who may go on with one, how many there are, and who shares records with whom.

use std::{collections::BTreeSet, time::Duration};

use ackgate::access::written;
use ackgate_proto::v1::{Confirm, LaneEventKind, Outcome, PullRequest};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::{
    Case, Gateway, Outgoing, Pulling, Stage, Stream, cases, eventually, reason, span, texts,
    throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: key_order_holds_between_two_pullers,
            puller_and_stream_share_the_records;
        embedded: session_that_is_not_known_is_refused,
            session_is_for_the_token_that_opened_it,
            opening_that_is_wrong_is_refused_in_words_of_the_call,
            name_is_held_by_one_session_unless_another_takes_it_over,
            more_sessions_than_allowed_are_refused_until_one_ends,
            leased_lane_moves_when_its_puller_has_answered,
            broadcast_keeps_what_a_puller_owes_for_its_name,
            pulling_nothing_leaves_no_session_and_stays_in_the_group;
    ]
}

async fn session_that_is_not_known_is_refused(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(1).await;
    let mut stranger = puller.clone();
    for wrong in ["0123456789abcdef0123456789abcdef", "x", ""] {
        stranger.asks.session = wrong.to_owned();
        let verdicts = vec![records[0].verdict(Outcome::Acked)];
        let refused = stranger.settle(verdicts, Confirm::Applied).await;
        let refused = refused.expect_err("no such session");
        assert_eq!(refused.code(), Code::NotFound);
        assert_eq!(reason(&refused), "PULL_SESSION_UNKNOWN");
        let refused = stranger.extend(&records, Duration::from_secs(1)).await;
        assert_eq!(
            reason(&refused.expect_err("no such session")),
            "PULL_SESSION_UNKNOWN"
        );
    }
    stranger.asks.session = "x".to_owned();
    let refused = stranger.call().await.expect_err("no such session");
    assert_eq!(reason(&refused), "PULL_SESSION_UNKNOWN");
    assert!(refused.message().contains("another gateway"), "{refused:?}");
    // One that is closed is not known either.
    puller.ack(&records).await;
    let mut closed = puller.clone();
    puller.close().await;
    eventually("the session has ended", async || {
        match closed.settle(Vec::new(), Confirm::Applied).await {
            Err(status) if reason(&status) == "PULL_SESSION_UNKNOWN" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    stage.commits(&topic, 0, 1).await;
}

async fn session_is_for_the_token_that_opened_it(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let lines = ["one", "two"].map(|name| written(name, &format!("token-{name}")).unwrap());
    std::fs::write(stage.folder().join("tokens"), lines.join("\n")).unwrap();
    let subscriptions = [stage.subscription(&topic)];
    let top = "listen.tokens_file = \"tokens\"";
    let gateway = Gateway::start_with(&stage, &subscriptions, top).await;
    let mut puller = Pulling::at(gateway.address).await;
    let with = |name: &str, asks: &PullRequest| {
        let mut request = tonic::Request::new(asks.clone());
        let token = format!("Bearer token-{name}").parse().expect("ascii");
        request.metadata_mut().insert("authorization", token);
        request
    };
    let refused = puller.call().await.expect_err("it has no token");
    assert_eq!(refused.code(), Code::Unauthenticated);
    let call = puller.client.pull(with("one", &puller.asks));
    let answer = call.await.expect("it may pull").into_inner();
    assert_eq!(answer.batches.len(), 1);
    puller.asks.session = answer.session;
    puller.asks.wait = None;
    let call = puller.client.pull(with("two", &puller.asks));
    let refused = call.await.expect_err("it is another's session");
    assert_eq!(reason(&refused), "PULL_SESSION_UNKNOWN");
    let call = puller.client.pull(with("one", &puller.asks));
    call.await.expect("it is its own");
}

async fn opening_that_is_wrong_is_refused_in_words_of_the_call(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.ack_deadline = span(Duration::from_millis(1));
    let refused = puller.call().await.expect_err("too short");
    assert_eq!(reason(&refused), "OPEN_INVALID");
    assert!(
        refused.message().starts_with("pull.ack_deadline: "),
        "{refused:?}"
    );
    puller.asks.ack_deadline = None;
    puller.asks.subscription = "no such".to_owned();
    let refused = puller.call().await.expect_err("no such subscription");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::NotFound, "UNKNOWN_SUBSCRIPTION")
    );
}

async fn key_order_holds_between_two_pullers(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let keyed = |key: &str, value: &str| Outgoing::value(0, value).keyed(key);
    let records = [keyed("k", "k1"), keyed("k", "k2"), keyed("l", "l1")];
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage.subscription(&topic).in_key_order();
    let gateway = stage.gateway(&[subscription]).await;
    let mut one = Pulling::at(gateway.address).await;
    one.asks.max_records = 1;
    let mut two = Pulling::at(gateway.address).await;
    let first = one.records(1).await;
    assert_eq!(texts(&first), ["k1"]);
    let other = two.records(1).await;
    assert_eq!(texts(&other), ["l1"]);
    // L9.
    assert!(two.pull_now().await.is_empty());
    one.ack(&first).await;
    let next = two.records(1).await;
    assert_eq!(texts(&next), ["k2"]);
    two.ack(&other).await;
    two.ack(&next).await;
    stage.commits(&topic, 0, 3).await;
}

async fn puller_and_stream_share_the_records(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    stage.produce(&topic, &values).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut open = Stream::hello("orders");
    open.credit.as_mut().expect("a credit").records = 10;
    let mut stream = Stream::open(gateway.address, open).await;
    let held = stream.records(10).await;
    let mut puller = Pulling::at(gateway.address).await;
    let pulled = puller.records(90).await;
    let both = held.iter().chain(&pulled);
    let offsets: BTreeSet<i64> = both.map(|one| one.offset).collect();
    assert_eq!(offsets.len(), 100);
    puller.ack(&pulled).await;
    stream.answer_all(&held, Outcome::Acked).await;
    stage.commits(&topic, 0, 100).await;
}

async fn name_is_held_by_one_session_unless_another_takes_it_over(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut one = Pulling::at(gateway.address).await;
    one.asks.subscriber_id = "nightly".to_owned();
    let records = one.records(1).await;
    let mut two = Pulling::at(gateway.address).await;
    two.asks.subscriber_id = "nightly".to_owned();
    let refused = two.call().await.expect_err("the name is held");
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("pull.takeover"), "{refused:?}");
    two.asks.takeover = true;
    let again = two.records(1).await;
    assert_eq!((again[0].offset, again[0].delivery), (0, 2));
    let verdicts = vec![records[0].verdict(Outcome::Acked)];
    // Whatever it calls: it must not begin a session that takes the name back.
    let late = [
        one.settle(verdicts, Confirm::Applied).await.map(drop),
        one.extend(&records, Duration::from_secs(1)).await.map(drop),
        one.call().await.map(drop),
        one.settle(Vec::new(), Confirm::Applied).await.map(drop),
    ];
    for late in late {
        let late = late.expect_err("another has its place");
        assert_eq!(late.code(), Code::Aborted, "{late:?}");
        assert_eq!(reason(&late), "SUPERSEDED");
    }
    two.ack(&again).await;
    stage.commits(&topic, 0, 1).await;
}

async fn more_sessions_than_allowed_are_refused_until_one_ends(stage: Stage) {
    const MOST: usize = 1000;
    let topic = stage.topic("orders", 1).await;
    let values: Vec<String> = (0..=MOST).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    stage.produce(&topic, &values).await;
    let top = format!("listen.max_streams = 5000\nlisten.max_pull_sessions = {MOST}");
    let subscriptions = [stage.subscription(&topic)];
    let gateway = Gateway::start_with(&stage, &subscriptions, &top).await;
    let mut first = Pulling::at(gateway.address).await;
    first.asks.max_records = 1;
    let mut pullers = Vec::new();
    for _ in 0..MOST {
        let mut puller = first.clone();
        assert_eq!(puller.records(1).await.len(), 1);
        pullers.push(puller);
    }
    let refused = first.call().await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason(&refused), "TOO_MANY_PULL_SESSIONS");
    let retry = refused.get_error_details().retry_info().cloned();
    assert!(retry.and_then(|retry| retry.retry_delay).is_some());
    pullers.pop().expect("the last one").close().await;
    // What it had is released, and its place is free.
    let records = eventually("a place is free", async || {
        let answer = first.call().await;
        answer.map_err(|status| status.to_string())
    })
    .await;
    assert_eq!(records.batches.len(), 1);
}

async fn leased_lane_moves_when_its_puller_has_answered(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b", "c"]).await;
    let subscription = stage
        .subscription(&topic)
        .in_lane_order()
        .set("lease.duration", "\"4s\"")
        .set("lease.beat", "\"500ms\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut one = Pulling::at(gateway.address).await;
    one.asks.max_records = 2;
    let held = one.records(2).await;
    let mut two = Pulling::at(gateway.address).await;
    // Longer than the lease: the gateway keeps it for its holder.
    throughout("the lane stays", Duration::from_secs(7), async || {
        let records = two.pull_now().await;
        if records.is_empty() {
            Ok(())
        } else {
            Err(format!("{records:?}"))
        }
    })
    .await;
    one.ack(&held).await;
    let rest = two.records(1).await;
    assert_eq!(texts(&rest), ["c"]);
    two.ack(&rest).await;
    stage.commits(&topic, 0, 3).await;
    let told = |event: &ackgate_proto::v1::LaneEvent| event.kind() == LaneEventKind::Standby;
    let _none = one.pull_now().await;
    assert!(one.events.iter().any(told), "{:?}", one.events);
}

async fn broadcast_keeps_what_a_puller_owes_for_its_name(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let subscription = stage
        .subscription(&topic)
        .set("delivery", "\"broadcast\"")
        // Else what the stream is given first would not be the puller's.
        .set("min_subscribers", "2");
    let gateway = stage.gateway(&[subscription]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let refused = puller.call().await.expect_err("it has no name");
    assert_eq!(reason(&refused), "PULL_INVALID");
    assert!(
        refused.message().contains("pull.subscriber_id"),
        "{refused:?}"
    );
    puller.asks.subscriber_id = "index".to_owned();
    let mut stream = gateway.open().await;
    let mut mine = puller.records(2).await;
    let theirs = stream.records(2).await;
    stream.answer_all(&theirs, Outcome::Acked).await;
    puller.ack(&mine.split_off(1)).await;
    // The session is taken over, as after a crash: a is owed to the name.
    let mut again = Pulling::at(gateway.address).await;
    again.asks.subscriber_id = "index".to_owned();
    again.asks.takeover = true;
    let owed = again.records(1).await;
    assert_eq!(texts(&owed), ["a"]);
    assert_eq!(stage.committed(&topic, 0).await.unwrap_or_default(), 0);
    again.ack(&owed).await;
    stage.commits(&topic, 0, 2).await;
    assert!(stream.within(Duration::from_millis(300)).await.is_empty());
}

async fn pulling_nothing_leaves_no_session_and_stays_in_the_group(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let subscription = stage.subscription(&topic).linger(Duration::from_secs(4));
    let gateway = stage.gateway(&[subscription]).await;
    let mut puller = Pulling::at(gateway.address).await;
    throughout(
        "nothing and no session",
        Duration::from_secs(10),
        async || {
            let records = puller.pull_now().await;
            if records.is_empty() && puller.asks.session.is_empty() {
                Ok(())
            } else {
                Err(texts(&records).join(", "))
            }
        },
    )
    .await;
    stage.produce(&topic, &["a"]).await;
    let records = puller.records(1).await;
    puller.ack(&records).await;
    stage.commits(&topic, 0, 1).await;
    let log = gateway.log();
    assert!(!log.contains("leaving the group"), "{log}");
    puller.close().await;
    gateway.logs("leaving the group").await;
}
