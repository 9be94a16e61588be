//! What verdicts look like on the wire.

use std::time::Duration;

use ackgate_client::Delivery;
use ackgate_proto::v1::{self, Outcome, subscribe_request::Request};

use crate::support::{Gateway, by_offset, deliveries, ranges, within};

#[tokio::test]
async fn acks_in_order_become_one_range() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 100);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..60).await;
    session.batch(1, 60..100).await;
    for delivery in deliveries(&mut subscriber, 100).await {
        delivery.ack();
    }
    let settle = session.settle().await;
    assert_eq!(settle.sequence, 1);
    assert_eq!(settle.verdicts.len(), 1);
    assert_eq!(ranges(&settle.verdicts), [(0, 99)]);
    assert_eq!(settle.verdicts[0].outcome(), Outcome::Acked);
}

#[tokio::test]
async fn acks_in_any_order_become_one_range_per_lane() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 40);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..20).await;
    session.batch(2, 20..40).await;
    let mut taken = deliveries(&mut subscriber, 40).await;
    fastrand::shuffle(&mut taken);
    taken.into_iter().for_each(Delivery::ack);
    let settle = session.settle().await;
    assert_eq!(settle.verdicts.len(), 2);
    assert_eq!(ranges(&settle.verdicts), [(0, 19), (20, 39)]);
}

#[tokio::test]
async fn ack_names_no_offset_that_was_not_handed_over() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 5);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, [10, 11, 13, 14, 20]).await;
    within("a batch", subscriber.next_batch())
        .await
        .unwrap()
        .unwrap()
        .ack_all();
    assert_eq!(
        ranges(&session.settle().await.verdicts),
        [(10, 11), (13, 14), (20, 20)]
    );
}

#[tokio::test]
async fn ack_names_the_delivery_it_answers() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 5);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    let again = v1::Redelivery {
        first_offset: 2,
        last_offset: 3,
        attempt: 2,
        delivery: 4,
    };
    session.batch_with(1, 0..5, vec![again]).await;
    let taken = deliveries(&mut subscriber, 5).await;
    let numbers: Vec<_> = taken
        .iter()
        .map(|it| (it.attempt(), it.delivery_number()))
        .collect();
    assert_eq!(numbers, [(1, 1), (1, 1), (2, 4), (2, 4), (1, 1)]);
    taken.into_iter().for_each(Delivery::ack);
    let named = by_offset(&session.settle().await.verdicts);
    let deliveries: Vec<_> = named
        .into_values()
        .map(|(_, delivery)| delivery.unwrap())
        .collect();
    assert_eq!(deliveries, [1, 1, 4, 4, 1]);
}

#[tokio::test]
async fn verdicts_carry_code_reason_and_delay() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 4);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(9, 0..4).await;
    let mut taken = deliveries(&mut subscriber, 4).await.into_iter();
    taken.next().unwrap().reject("malformed", "no amount");
    taken.next().unwrap().fail("database is away");
    taken
        .next()
        .unwrap()
        .fail_after("busy", "later", Duration::from_millis(1_500));
    taken.next().unwrap().release();
    let verdicts = session.settle().await.verdicts;
    let said: Vec<_> = verdicts
        .iter()
        .map(|it| {
            (
                it.first_offset,
                it.outcome(),
                it.code.as_str(),
                it.reason.as_str(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (0, Outcome::Rejected, "malformed", "no amount"),
            (1, Outcome::Failed, "", "database is away"),
            (2, Outcome::Failed, "busy", "later"),
            (3, Outcome::Released, "", ""),
        ]
    );
    assert!(
        verdicts
            .iter()
            .all(|it| it.lane == 9 && it.delivery == Some(1))
    );
    let delay = prost_types::Duration {
        seconds: 1,
        nanos: 500_000_000,
    };
    assert_eq!(verdicts[2].retry_after, Some(delay));
    assert_eq!(verdicts[1].retry_after, None);
}

#[tokio::test]
async fn long_code_and_reason_are_cut_between_characters() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = gateway.subscribe().await;
    session.batch(1, [0]).await;
    let long = format!("x{}", "é".repeat(2_000));
    deliveries(&mut subscriber, 1)
        .await
        .remove(0)
        .reject(long.clone(), long.clone());
    let verdict = session.settle().await.verdicts.remove(0);
    assert_eq!((verdict.code.len(), verdict.reason.len()), (127, 1_023));
    assert!(long.starts_with(&verdict.code) && long.starts_with(&verdict.reason));
}

#[tokio::test]
async fn message_holds_at_most_ten_thousand_verdicts() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .credit(30_000, 1 << 30)
        .flush(Duration::from_secs(60), 25_000);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, (0..25_000).map(|index| index * 2)).await;
    within("a batch", subscriber.next_batch())
        .await
        .unwrap()
        .unwrap()
        .ack_all();
    let mut sizes = Vec::new();
    for sequence in 1..=3 {
        let settle = session.settle().await;
        assert_eq!(settle.sequence, sequence);
        sizes.push(settle.verdicts.len());
    }
    assert_eq!(sizes, [10_000, 10_000, 5_000]);
}

#[tokio::test]
async fn message_of_long_reasons_stays_far_below_four_mebibytes() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 6_000);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..6_000).await;
    for (index, delivery) in deliveries(&mut subscriber, 6_000)
        .await
        .into_iter()
        .enumerate()
    {
        delivery.reject("malformed", format!("{index}: {}", "x".repeat(1_000)));
    }
    // The gateway of these tests takes no larger message.
    assert_eq!(by_offset(&session.verdicts(6_000).await).len(), 6_000);
}

#[tokio::test]
async fn neighbours_with_the_same_verdict_share_one() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 10);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..10).await;
    deliveries(&mut subscriber, 10)
        .await
        .into_iter()
        .for_each(Delivery::release);
    assert_eq!(ranges(&session.settle().await.verdicts), [(0, 9)]);
}

#[tokio::test]
async fn extension_goes_out_before_the_verdict_on_the_same_record() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 3);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..3).await;
    let taken = deliveries(&mut subscriber, 3).await;
    for delivery in &taken {
        delivery.extend(Duration::from_secs(1));
        delivery.extend(Duration::from_secs(30));
    }
    taken.into_iter().for_each(Delivery::ack);
    let Some(Request::Extend(extend)) = session.request().await else {
        panic!("no Extend")
    };
    let extension = &extend.extensions[0];
    assert_eq!(
        (extension.first_offset, extension.last_offset),
        (0, Some(2))
    );
    assert_eq!(
        extend.by,
        Some(prost_types::Duration {
            seconds: 30,
            nanos: 0
        })
    );
    let settle = session.settle().await;
    assert_eq!((extend.sequence, settle.sequence), (1, 2));
    assert_eq!(ranges(&settle.verdicts), [(0, 2)]);
}

#[tokio::test]
async fn mixed_verdicts_in_any_order_answer_each_record_once() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = gateway.subscribe().await;
    let mut wanted = std::collections::BTreeMap::new();
    let mut held = Vec::new();
    for lane in 0..20 {
        let offsets: Vec<i64> = (0..200).filter(|_| random.u8(..) > 40).collect();
        session.batch(lane, offsets.iter().copied()).await;
        held.extend(
            deliveries(&mut subscriber, offsets.len())
                .await
                .into_iter()
                .map(|it| (lane, it)),
        );
        random.shuffle(&mut held);
        for (lane, delivery) in held.split_off(held.len() / 3) {
            let outcome = match random.u8(..4) {
                0 => Outcome::Rejected,
                1 => Outcome::Failed,
                _ => Outcome::Acked,
            };
            wanted.insert((lane, delivery.offset()), (outcome, Some(1)));
            match outcome {
                Outcome::Rejected => delivery.reject("code", "reason"),
                Outcome::Failed => delivery.fail("reason"),
                Outcome::Unspecified | Outcome::Acked | Outcome::Released => delivery.ack(),
            }
        }
    }
    for (lane, delivery) in held {
        wanted.insert((lane, delivery.offset()), (Outcome::Acked, Some(1)));
        delivery.ack();
    }
    let answered = session.verdicts(i64::try_from(wanted.len()).unwrap()).await;
    assert_eq!(by_offset(&answered), wanted);
}
