//! Order by key among competing subscribers: who gets which record, and when.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use ackgate_proto::v1::{Credit, Outcome};
use futures::future::join_all;
use tokio::sync::Barrier;

use crate::support::{Case, Gateway, Outgoing, Received, Stage, Stream, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: failed_record_keeps_its_place_in_its_key,
            null_keys_run_in_parallel_and_an_empty_key_is_a_key,
            poison_record_of_a_key_is_dead_lettered_and_the_key_goes_on;
        embedded: key_stays_with_its_subscriber_while_others_come_and_go,
            key_that_never_settles_leaves_the_window_to_the_others;
    ]
}

async fn produce(stage: &Stage, topic: &Topic, keys: &[&str]) {
    let records = keys.iter().map(|key| Outgoing::value(0, *key).keyed(*key));
    stage.broker.produce(&topic.name, records).await;
}

fn key(record: &Received) -> &str {
    std::str::from_utf8(record.record.key.as_deref().unwrap_or_default()).unwrap()
}

async fn with_places(gateway: &Gateway, records: u32) -> Stream {
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit {
        records,
        bytes: 1 << 20,
    });
    Stream::open(gateway.address, open).await
}

// FC-64, L9.
async fn failed_record_keeps_its_place_in_its_key(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let keys = ["k", "k", "k", "k", "k", "j", "j", "j", "j", "j"];
    produce(&stage, &topic, &keys).await;
    let subscription = stage.subscription(&topic).in_key_order();
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let mut of_k = Vec::new();
    let mut of_j = Vec::new();
    while of_k.len() + of_j.len() < 11 {
        let record = stream.record().await;
        if key(&record) == "j" {
            of_j.push(record.offset);
            stream.ack(&record).await;
            continue;
        }
        of_k.push(record.offset);
        if of_k.len() == 1 {
            let mut failed = record.verdict(Outcome::Failed);
            failed.retry_after = Some(prost_types::Duration {
                seconds: 1,
                nanos: 0,
            });
            assert_eq!(stream.settle(vec![failed]).await.answers, []);
        } else {
            assert_eq!(of_j.len(), 5, "the other key goes on during the wait");
            stream.ack(&record).await;
        }
    }
    assert_eq!(of_k, [0, 0, 1, 2, 3, 4]);
    assert_eq!(of_j, [5, 6, 7, 8, 9]);
    stage.commits(&topic, 0, 10).await;
}

// FC-66.
async fn null_keys_run_in_parallel_and_an_empty_key_is_a_key(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let records = (0..105).map(|n: usize| {
        let record = Outgoing::value(0, format!("{n}"));
        match n {
            20 | 21 | 40 | 60 | 80 => record.keyed("k"),
            22 | 23 | 41 | 61 | 81 => record.keyed(""),
            _ => record,
        }
    });
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage.subscription(&topic).in_key_order();
    let gateway = stage.gateway(&[subscription]).await;
    let all_have_one = Barrier::new(10);
    let out: RefCell<BTreeSet<Vec<u8>>> = RefCell::default();
    let seen: RefCell<BTreeMap<Option<Vec<u8>>, Vec<i64>>> = RefCell::default();
    let worker = async || {
        let mut stream = with_places(&gateway, 1).await;
        let mut first = true;
        while seen.borrow().values().map(Vec::len).sum::<usize>() < 105 {
            let Some(record) = stream
                .within(std::time::Duration::from_millis(50))
                .await
                .pop()
            else {
                continue;
            };
            let key = record.record.key.as_ref().map(|key| key.to_vec());
            if let Some(key) = &key {
                assert!(out.borrow_mut().insert(key.clone()), "L9: two of {key:?}");
            }
            if std::mem::take(&mut first) {
                // Ten records without a key are out at once, or this waits for ever.
                assert_eq!(key, None);
                all_have_one.wait().await;
            }
            seen.borrow_mut()
                .entry(key.clone())
                .or_default()
                .push(record.offset);
            if let Some(key) = &key {
                out.borrow_mut().remove(key);
            }
            stream.ack(&record).await;
        }
    };
    join_all((0..10).map(|_| worker())).await;
    let seen = seen.into_inner();
    assert_eq!(seen[&None].len(), 95);
    assert_eq!(seen[&Some(b"k".to_vec())], [20, 21, 40, 60, 80]);
    assert_eq!(seen[&Some(Vec::new())], [22, 23, 41, 61, 81]);
    stage.commits(&topic, 0, 105).await;
}

// L3, L9.
async fn poison_record_of_a_key_is_dead_lettered_and_the_key_goes_on(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    produce(&stage, &topic, &["k", "k", "j", "k"]).await;
    let subscription = stage
        .subscription(&topic)
        .in_key_order()
        .max_attempts(2)
        .dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let record = stream.record().await;
        seen.push(record.offset);
        if record.offset == 0 {
            stream.fail(&record).await;
        } else {
            if key(&record) == "k" {
                let letters = stage.broker.read(&dead.name).await;
                assert_eq!(letters.len(), 1, "the key goes on once the letter is there");
            }
            stream.ack(&record).await;
        }
    }
    seen.retain(|offset| *offset != 2);
    assert_eq!(seen, [0, 0, 1, 3]);
    stage.commits(&topic, 0, 4).await;
}

async fn key_stays_with_its_subscriber_while_others_come_and_go(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    produce(&stage, &topic, &["k", "k", "k", "k", "k"]).await;
    let subscription = stage.subscription(&topic).in_key_order();
    let gateway = stage.gateway(&[subscription]).await;
    let mut first = with_places(&gateway, 10).await;
    let zero = first.record().await;
    // One that has been waiting longer, with more credit, changes nothing.
    let mut second = gateway.open().await;
    second.event("assigns the lane", |_| true).await;
    first.ack(&zero).await;
    let one = first.record().await;
    assert_eq!(one.offset, 1);
    // A failed verdict does not move it either.
    first.fail(&one).await;
    let one = first.record().await;
    assert_eq!((one.offset, one.attempt), (1, 2));
    second.close().await;
    first.ack(&one).await;
    let two = first.record().await;

    // Its subscriber goes: the key moves, with the record that was out.
    let mut third = gateway.open().await;
    third.event("assigns the lane", |_| true).await;
    drop(first);
    let again = third.record().await;
    assert_eq!((again.offset, again.delivery), (two.offset, 2));
    // Back again, it finds the key with another one.
    let mut first = with_places(&gateway, 10).await;
    first.event("assigns the lane", |_| true).await;
    third.ack(&again).await;
    let three = third.record().await;
    assert_eq!(three.offset, 3);
    third.ack(&three).await;
    let four = third.record().await;
    third.ack(&four).await;
    stage.commits(&topic, 0, 5).await;

    // With all of it settled, the key is anyone's.
    third.credit(0, 0).await;
    produce(&stage, &topic, &["k"]).await;
    let five = first.record().await;
    first.ack(&five).await;
    stage.commits(&topic, 0, 6).await;
}

async fn key_that_never_settles_leaves_the_window_to_the_others(stage: Stage) {
    const OTHERS: usize = 400;
    let topic = stage.topic("orders", 1).await;
    // Two in three are of the hot key, in all eight times what the window holds.
    let records = (0..3 * OTHERS).map(|n| {
        let record = Outgoing::value(0, format!("{n}"));
        if n % 3 == 2 {
            record.keyed(format!("other {n}"))
        } else {
            record.keyed("hot")
        }
    });
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage
        .subscription(&topic)
        .in_key_order()
        .set("key_share", "0.1")
        .set("window.records", "150");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let mut hot = Vec::new();
    let mut others = 0;
    while others < OTHERS {
        let record = stream.record().await;
        if key(&record) == "hot" {
            hot.push(record);
        } else {
            others += 1;
            stream.ack(&record).await;
        }
    }
    assert_eq!(hot.len(), 1, "L9");
    stream.ack(&hot[0]).await;
    assert_eq!(stream.record().await.offset, 1);
}
