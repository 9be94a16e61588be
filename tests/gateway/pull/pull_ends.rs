//! Callers that go, sessions that nobody comes back for, and gateways that stop.

use std::time::{Duration, Instant};

use ackgate_proto::v1::{Confirm, Outcome};
use tokio::time::timeout;
use tonic::Code;

use crate::support::{
    Case, Gateway, Pulling, Stage, Stream, cases, eventually, reason, records_of, span, texts,
    throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: call_whose_caller_goes_takes_nothing,
            stop_answers_a_waiting_call_and_takes_verdicts_until_the_end;
        embedded: call_on_an_aged_connection_is_answered,
            session_ends_some_time_after_nothing_is_out,
            restarted_gateway_knows_no_session_and_delivers_again;
    ]
}

async fn call_whose_caller_goes_takes_nothing(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let top = "log.filter = \"info,ackgate=debug\"";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let mut puller = Pulling::at(gateway.address).await;
    // It gets the record and waits for others.
    puller.asks.wait = span(Duration::from_secs(60));
    puller.asks.linger = span(Duration::from_secs(60));
    puller.asks.max_records = 10;
    let mut gone = puller.clone();
    let call = tokio::spawn(async move { gone.call().await });
    // No line at `info` for each session: a job may begin one a minute.
    let line = "DEBUG ackgate::consumer::arrival: subscriber attached";
    gateway.logs(line).await;
    stage.produce(&topic, &["a"]).await;
    let mut other = Pulling::at(gateway.address).await;
    // The first call has it.
    other.asks.wait = span(Duration::from_secs(3));
    assert!(other.pull().await.is_empty());
    call.abort();
    let begun = Instant::now();
    let records = other.records(1).await;
    assert_eq!(records[0].attempt, 1, "no attempt is used");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "at once, not at a deadline"
    );
    other.ack(&records).await;
    stage.commits(&topic, 0, 1).await;
}

async fn stop_answers_a_waiting_call_and_takes_verdicts_until_the_end(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let top = "shutdown.drain = \"30s\"";
    let mut gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(2).await;
    puller.asks.wait = span(Duration::from_secs(60));
    let mut other = puller.clone();
    let waiting = tokio::spawn(async move { other.call_when_free().await });
    puller.is_refused_as_in_progress().await;
    gateway.terminate();
    let answer = timeout(Duration::from_secs(20), waiting).await;
    let answer = answer.expect("at once").expect("it does not panic");
    let answer = answer.expect("an empty answer, not an error");
    assert!(answer.draining && answer.batches.is_empty(), "{answer:?}");
    // A new session is not for this gateway.
    let mut new = puller.clone();
    new.asks.session.clear();
    let refused = new.call().await.expect_err("the gateway stops");
    assert_eq!(reason(&refused), "SHUTTING_DOWN");
    // What is out is answered, and counts.
    puller.ack(&records[..1]).await;
    let verdicts = vec![records[1].verdict(Outcome::Acked)];
    let answers = puller.settle(verdicts, Confirm::Durable).await;
    assert_eq!(answers.expect("it is durable"), []);
    assert!(gateway.end().await.success());
    assert_eq!(stage.committed(&topic, 0).await, Some(2));
}

async fn call_on_an_aged_connection_is_answered(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let long = Duration::from_secs(600);
    let subscription = stage.subscription(&topic).ack_deadline(long);
    // Waits and graces are far longer than the age: nothing else ends a call.
    let top = "listen.max_connection_age = \"4s\"\nshutdown.drain = \"10m\"";
    let gateway = Gateway::start_with(&stage, &[subscription], top).await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.wait = span(Duration::from_secs(60));
    puller.asks.linger = span(Duration::from_secs(60));
    puller.asks.max_records = 10;
    // Nothing came, and it was not seen that nothing is there.
    let refused = puller.call().await.expect_err("no records, and not none");
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "CONNECTION_AGED")
    );
    // What came is the caller's; and a session goes on over the next connection, which
    // the library makes by itself.
    let mut records = Vec::new();
    for value in ["a", "b"] {
        stage.produce(&topic, &[value]).await;
        let answer = eventually("the record comes", async || match puller.call().await {
            Ok(answer) => Ok(answer),
            Err(status) if status.code() == Code::Unavailable => Err(status.to_string()),
            Err(status) => panic!("{status:?}"),
        })
        .await;
        records.extend(records_of(&answer));
    }
    assert_eq!(texts(&records), ["a", "b"]);
    eventually("they are acked", async || {
        let verdicts = records.iter().map(|one| one.verdict(Outcome::Acked));
        let answers = puller.settle(verdicts.collect(), Confirm::Applied).await;
        answers.map_err(|status| status.to_string())
    })
    .await;
    stage.commits(&topic, 0, 2).await;
}

async fn session_ends_some_time_after_nothing_is_out(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let subscriptions = [stage.subscription(&topic)];
    let gateway = Gateway::start_with(&stage, &subscriptions, "listen.pull_idle = \"1s\"").await;
    let mut puller = Pulling::at(gateway.address).await;
    puller.asks.subscriber_id = "nightly".to_owned();
    let records = puller.records(1).await;
    // Idle for longer than that, with a record out: the name stays taken.
    let mut other = Pulling::at(gateway.address).await;
    other.asks.subscriber_id = "nightly".to_owned();
    throughout(
        "the name is held",
        Duration::from_secs(3),
        async || match other.call().await {
            Err(refused) if reason(&refused) == "SUBSCRIBER_ID_IN_USE" => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    )
    .await;
    puller.ack(&records).await;
    // Ended, the name is free; the next one finds nothing.
    other.asks.wait = None;
    eventually("the session has ended", async || {
        other.call().await.map_err(|status| status.to_string())
    })
    .await;
    stage.commits(&topic, 0, 1).await;
}

async fn restarted_gateway_knows_no_session_and_delivers_again(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut puller = Pulling::at(gateway.address).await;
    let records = puller.records(2).await;
    let verdicts = vec![records[0].verdict(Outcome::Acked)];
    let answers = puller.settle(verdicts, Confirm::Durable).await;
    assert_eq!(answers.expect("it is durable"), []);
    gateway.kill_and_restart().await;
    let mut after = Pulling::at(gateway.address).await;
    after.asks.session = puller.asks.session.clone();
    let refused = after
        .call()
        .await
        .expect_err("its session died with the gateway");
    assert_eq!(reason(&refused), "PULL_SESSION_UNKNOWN");
    after.asks.session.clear();
    // L12: what was durable does not come again.
    let again = after.records(1).await;
    assert_eq!(texts(&again), ["b"]);
    after.ack(&again).await;
    stage.commits(&topic, 0, 2).await;
    let mut stream = Stream::open(gateway.address, Stream::hello("orders")).await;
    assert!(stream.within(Duration::from_millis(300)).await.is_empty());
}
