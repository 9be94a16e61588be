//! What a restart throws off comes back.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use ackgate_client::{Subscriber, Tls};
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt as _;

use crate::support::{Authority, Case, Gateway, Outgoing, Stage, Topic, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: five_hundred_subscribers_come_back_after_a_restart,
            five_hundred_subscribers_come_back_over_tls;
    ]
}

/// How many subscribers a restart throws off at once.
const MANY: usize = 500;

/// For all of them to come back, on a slow machine: so many have some work to do.
const LIMIT: Duration = Duration::from_secs(240);

// FC-88.
async fn five_hundred_subscribers_come_back_after_a_restart(stage: Stage) {
    let topic = stage.topic("orders", 4).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    all_come_back(&stage, &topic, gateway, None).await;
}

// FC-88: each of them has a handshake to make.
async fn five_hundred_subscribers_come_back_over_tls(stage: Stage) {
    let topic = stage.topic("orders", 4).await;
    let authority = Authority::new(stage.folder(), "ca");
    let top = authority.signs(&["127.0.0.1"]).lines();
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let tls = Tls::new().ca_file(authority.certificate());
    all_come_back(&stage, &topic, gateway, Some(tls)).await;
}

async fn all_come_back(stage: &Stage, topic: &Topic, mut gateway: Gateway, tls: Option<Tls>) {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", gateway.address);
    let seen: Arc<Mutex<BTreeSet<(i32, i64)>>> = Arc::default();
    let mut subscribers = Vec::new();
    for part in 0..MANY / 50 {
        let some = (0..50).map(|n| {
            let builder = Subscriber::builder(&address, "orders")
                .subscriber_id(format!("{part}-{n}"))
                .credit(4, 1 << 20);
            match &tls {
                Some(tls) => builder.tls(tls.clone()),
                None => builder,
            }
            .connect()
        });
        for subscriber in futures::future::join_all(some).await {
            subscribers.push(subscriber.expect("it is taken"));
        }
    }
    let mut sessions = Vec::new();
    for mut subscriber in subscribers {
        let seen = Arc::clone(&seen);
        let (say, back) = tokio::sync::watch::channel(0);
        sessions.push(back);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    delivery = subscriber.next() => {
                        let delivery = delivery.expect("it goes on").expect("no error");
                        seen.lock().unwrap().insert((delivery.partition(), delivery.offset()));
                        delivery.ack();
                    }
                    () = sleep(Duration::from_millis(100)) => {}
                }
                say.send_replace(subscriber.stats().reconnects);
            }
        });
    }
    let write = async |from: i32| {
        let records = (from..from + 1000).map(|n| Outgoing::value(n % 4, n.to_string()));
        stage.broker.produce(&topic.name, records).await;
    };
    write(0).await;
    gateway.kill_and_restart().await;
    write(1000).await;
    let up = Instant::now();
    loop {
        let back = sessions.iter().filter(|it| *it.borrow() >= 1).count();
        if back == MANY {
            break;
        }
        assert!(up.elapsed() < LIMIT, "{back} of {MANY} are back");
        sleep(Duration::from_millis(20)).await;
    }
    println!(
        "all {MANY} are back {:?} after the gateway listens",
        up.elapsed()
    );
    eventually("every record has come", async || {
        let seen = seen.lock().unwrap().len();
        if seen == 2000 {
            Ok(())
        } else {
            Err(seen.to_string())
        }
    })
    .await;
}
