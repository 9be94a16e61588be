//! Who a subscriber is over all its streams: names, and broken streams that go on.

use std::time::Duration;

use ackgate_client::{Delivery, ProblemKind};
use ackgate_proto::v1::{
    Beat, Held, Open, Outcome, Resume, ResumeResult, subscribe_request::Request,
};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tonic::Code;

use crate::support::{
    Case, Gateway, PATIENCE, Proxy, Stage, Stream, Topic, cases, eventually, reason,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: cut_connection_keeps_what_is_in_hand;
        embedded: silently_dead_connection_is_noticed_by_both_sides,
            second_stream_of_a_name_is_refused_unless_it_takes_over,
            what_a_plain_stub_names_is_kept_and_the_rest_comes_again,
            token_of_another_gateway_keeps_nothing,
            manifest_beyond_its_limit_is_refused,
            beat_is_no_first_message;
    ]
}

fn named(name: &str) -> Open {
    Open {
        subscriber_id: name.to_owned(),
        ..Stream::hello("orders")
    }
}

async fn next(subscriber: &mut ackgate_client::Subscriber) -> Delivery {
    timeout(PATIENCE, subscriber.next())
        .await
        .expect("a delivery in time")
        .expect("the stream goes on")
        .expect("no error")
}

async fn subscriber(proxy: &Proxy) -> ackgate_client::Subscriber {
    ackgate_client::Subscriber::builder(format!("http://{}", proxy.address), "orders")
        // Far longer than a healthy peer is ever silent, also on a slow machine.
        .keepalive(Duration::from_secs(1), Duration::from_secs(5))
        .connect()
        .await
        .expect("it connects")
}

async fn reconnected(subscriber: &ackgate_client::Subscriber) {
    eventually("the subscriber is back", async || {
        let stats = subscriber.stats();
        if stats.reconnects == 1 {
            Ok(())
        } else {
            Err(format!("{stats:?}"))
        }
    })
    .await;
}

// FC-41, L10: work in progress outlives a cut connection.
async fn cut_connection_keeps_what_is_in_hand(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage
        .produce(&topic, &["0", "1", "2", "3", "4", "5", "6", "7"])
        .await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let proxy = Proxy::start(gateway.address).await;
    let mut working = subscriber(&proxy).await;
    let mut hands = Vec::new();
    for _ in 0..5 {
        hands.push(next(&mut working).await);
    }
    // What is on its way when it is cut is another matter.
    eventually("all have come", async || {
        let stats = working.stats();
        if stats.records == 8 {
            Ok(())
        } else {
            Err(format!("{stats:?}"))
        }
    })
    .await;
    let mut idle = gateway.open().await;
    proxy.cut();
    reconnected(&working).await;
    // Those that it had, and those that had come and not been taken yet.
    for hand in hands {
        hand.ack();
    }
    for offset in 5..8 {
        let delivery = next(&mut working).await;
        assert_eq!((delivery.offset(), delivery.delivery_number()), (offset, 1));
        delivery.ack();
    }
    stage.commits(&topic, 0, 8).await;
    let stats = working.stats();
    assert_eq!((stats.records, stats.stale_answers), (8, 0), "{stats:?}");
    assert_eq!(stats.problems_of(ProblemKind::Lost), 0);
    assert_eq!(idle.within(Duration::from_millis(300)).await.len(), 0);
    working.close().await.expect("a goodbye");
}

// FC-82.
async fn silently_dead_connection_is_noticed_by_both_sides(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let gateway = Gateway::start_with(
        &stage,
        &[stage.subscription(&topic)],
        "listen.keepalive = { interval = \"1s\", timeout = \"5s\" }",
    )
    .await;
    let proxy = Proxy::start(gateway.address).await;
    let mut plain = Stream::open(proxy.address, named("plain")).await;
    assert_eq!(plain.record().await.offset, 0);
    let mut idle = subscriber(&proxy).await;
    proxy.fall_deaf();
    // The gateway gives the dead stream up and delivers elsewhere what it had; the
    // client connects again by itself.
    let again = next(&mut idle).await;
    assert_eq!(again.offset(), 0);
    // It may have gone to the client's dead stream in between.
    assert!((2..=3).contains(&again.delivery_number()), "{again:?}");
    again.ack();
    stage.produce(&topic, &["1"]).await;
    let fresh = next(&mut idle).await;
    assert_eq!((fresh.offset(), fresh.delivery_number()), (1, 1));
    fresh.ack();
    stage.commits(&topic, 0, 2).await;
    assert!(idle.stats().reconnects >= 1);
}

async fn second_stream_of_a_name_is_refused_unless_it_takes_over(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut first = Stream::open(gateway.address, named("billing")).await;
    assert_eq!(first.records(2).await.len(), 2);

    let mut second = Stream::connect(gateway.address).await.unwrap();
    second.send(Request::Open(named("billing"))).await;
    let status = second.status().await;
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    assert_eq!(reason(&status), "SUBSCRIBER_ID_IN_USE");

    let takeover = Open {
        takeover: true,
        ..named("billing")
    };
    let mut third = Stream::open(gateway.address, takeover).await;
    let status = first.status().await;
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert_eq!(reason(&status), "SUPERSEDED");
    let again = third.records(2).await;
    assert!(again.iter().all(|one| one.delivery == 2), "L6");
    third.answer_all(&again, Outcome::Acked).await;
    stage.commits(&topic, 0, 2).await;
    third.close().await;
    // Nobody has the name now.
    Stream::open(gateway.address, named("billing"))
        .await
        .close()
        .await;
}

fn held(topic: &Topic, first_offset: i64, last_offset: i64) -> Held {
    Held {
        topic: topic.name.clone(),
        partition: 0,
        epoch: 1,
        first_offset,
        last_offset,
        delivery: None,
    }
}

#[allow(clippy::too_many_lines, reason = "one story, told in order")]
async fn what_a_plain_stub_names_is_kept_and_the_rest_comes_again(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let open = Open {
        resumable: true,
        ..named("billing")
    };
    let mut stream = Stream::open(gateway.address, open.clone()).await;
    let records = stream.records(5).await;
    stream.ack(&records[0]).await;
    let opened = stream.opened.clone().expect("it was opened");
    assert_eq!(opened.resume_token.len(), 32);
    let settings = opened.settings.expect("settings");
    assert_eq!(settings.resume_grace.map(|grace| grace.seconds), Some(30));
    assert_eq!(settings.lease_beat, None, "no lane order");
    let mut other = gateway.open().await;
    drop(stream);
    gateway.logs("what is out waits for it").await;
    assert_eq!(
        other.within(Duration::from_millis(300)).await.len(),
        0,
        "L10"
    );

    let resume = Resume {
        token: opened.resume_token,
        held: vec![held(&topic, 0, 2), held(&topic, 7, -7)],
    };
    let open = Open {
        resume: Some(resume),
        ..open
    };
    let mut stream = Stream::open(gateway.address, open).await;
    let opened = stream.opened.clone().expect("it was opened");
    let answers: Vec<_> = opened
        .resumed
        .iter()
        .map(|part| {
            (
                part.first_offset,
                part.last_offset,
                part.result(),
                part.lane,
            )
        })
        .collect();
    assert_eq!(
        answers,
        [
            (7, -7, ResumeResult::Lost, 0),
            (0, 0, ResumeResult::Settled, 0),
            (1, 2, ResumeResult::Kept, records[1].lane)
        ]
    );
    stream.answer_all(&records[1..3], Outcome::Acked).await;
    let mut rest = Vec::new();
    eventually("the rest comes, whoever gets it", async || {
        for stream in [&mut other, &mut stream] {
            rest.extend(stream.within(Duration::from_millis(50)).await);
        }
        if rest.len() == 2 {
            Ok(())
        } else {
            Err(format!("{rest:?}"))
        }
    })
    .await;
    assert!(rest.iter().all(|one| one.offset >= 3 && one.delivery == 2));
    let stale = stream
        .settle(vec![records[3].verdict(Outcome::Acked)])
        .await
        .answers;
    assert!(stale.len() <= 1);
    for stream in [&mut stream, &mut other] {
        let verdicts = rest.iter().map(|one| one.verdict(Outcome::Acked)).collect();
        stream.settle(verdicts).await;
    }
    stage.commits(&topic, 0, 5).await;
}

async fn token_of_another_gateway_keeps_nothing(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let open = Open {
        resumable: true,
        ..named("billing")
    };
    let mut stream = Stream::open(gateway.address, open.clone()).await;
    stream.records(2).await;
    let token = stream.opened.as_ref().expect("opened").resume_token.clone();
    gateway.kill_and_restart().await;
    let resume = Resume {
        token,
        held: vec![held(&topic, 0, 1)],
    };
    let open = Open {
        resume: Some(resume),
        ..open
    };
    let mut stream = Stream::open(gateway.address, open).await;
    let opened = stream.opened.clone().expect("it was opened");
    assert_eq!(opened.resumed.len(), 1);
    assert_eq!(opened.resumed[0].result(), ResumeResult::Lost);
    let records = stream.records(2).await;
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 2).await;
}

// FC-81: the same limit on the way back.
async fn manifest_beyond_its_limit_is_refused(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let resume = Resume {
        token: "none".to_owned(),
        held: vec![held(&topic, 0, 0); 10_001],
    };
    let mut stream = Stream::connect(gateway.address).await.unwrap();
    let open = Open {
        resume: Some(resume),
        ..named("billing")
    };
    stream.send(Request::Open(open)).await;
    let status = stream.status().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(&status), "MANIFEST_TOO_LARGE");
}

async fn beat_is_no_first_message(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = Stream::connect(gateway.address).await.unwrap();
    stream.send(Request::Beat(Beat {})).await;
    assert_eq!(reason(&stream.status().await), "OPEN_EXPECTED");
    let stream = gateway.open().await;
    stream.send(Request::Beat(Beat {})).await;
    stream.close().await;
}
