//! Results: in order, once, in time, and their bytes and places given back.

#![allow(
    clippy::print_stdout,
    clippy::cast_possible_wrap,
    reason = "random tests print their seed, and numbers are small"
)]

use tokio::time::{Instant, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn results_are_in_the_order_sent_whatever_the_order_of_answers() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    feed.take(drafts(0..5).into_iter()).await;
    for at in [4, 2, 1, 1] {
        stage.fake.confirm(at);
    }
    let early = timeout(Duration::from_secs(1), ledger.next()).await;
    assert!(early.is_err(), "the first has no answer: {early:?}");
    stage.fake.confirm(0);
    let run = ledger.next().await;
    assert_eq!(run.first, 0);
    let offset = |result: &Answered| result.outcome.as_ref().ok().map(|it| it.offset);
    let offsets: Vec<_> = run.results.iter().map(offset).collect();
    assert_eq!(
        offsets,
        [0, 1, 2, 3, 4].map(Some),
        "each answer in its place"
    );
    feed.take([draft("5")].into_iter()).await;
    stage.fake.confirm_all();
    assert_eq!(ledger.next().await.first, 5);
    assert_eq!(ledger.count().written, 6);
}

#[tokio::test(start_paused = true)]
async fn record_without_an_answer_times_out_and_its_late_answer_only_gives_its_bytes_back() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    let all = stage.bytes_left();
    feed.take(drafts(0..2).into_iter()).await;
    stage.fake.confirm(1);
    assert_eq!(all - stage.bytes_left(), LIGHT + 1, "one is under way");
    let begin = Instant::now();
    let run = ledger.next().await;
    assert_eq!(begin.elapsed(), TIMEOUT);
    let whys: Vec<_> = run.results.iter().map(why).collect();
    assert_eq!(whys, [Some(Why::TimedOut), None]);
    assert_eq!(
        all - stage.bytes_left(),
        LIGHT + 1,
        "the client has it still"
    );
    let count = ledger.count();
    stage.fake.confirm(0);
    assert_eq!(stage.bytes_left(), all);
    assert_eq!(ledger.count(), count, "its answer was given");
    assert_eq!((count.records, count.written, count.failed), (2, 1, 1));
    assert!(ledger.is_empty());
}

#[tokio::test(start_paused = true)]
async fn giving_up_answers_the_rest_at_once() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    feed.take(drafts(0..3).into_iter()).await;
    stage.fake.confirm(1);
    ledger.give_up();
    let run = ledger.next().await;
    let whys: Vec<_> = run.results.iter().map(why).collect();
    assert_eq!(whys, [Some(Why::TimedOut), None, Some(Why::TimedOut)]);
}

#[tokio::test(start_paused = true)]
async fn receipt_that_is_dropped_says_that_nobody_knows() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    let all = stage.bytes_left();
    feed.take([draft("v")].into_iter()).await;
    stage.fake.queue.lock().clear();
    assert_eq!(why(&ledger.next().await.results[0]), Some(Why::TimedOut));
    assert_eq!(stage.bytes_left(), all);
}

#[tokio::test(start_paused = true)]
async fn run_is_cut_before_it_is_too_large_for_a_message() {
    let stage = Stage::new(Publish {
        max_in_flight_records: 10_000,
        max_in_flight_bytes: 16 << 20,
        ..publish()
    });
    let (mut feed, ledger) = stage.stream();
    let topic = format!("t{}", "x".repeat(248));
    let long = (0..10_000).map(|_| {
        let mut draft = draft("v");
        draft.record.topic.clone_from(&topic);
        draft
    });
    feed.take(long).await;
    stage.fake.confirm_all();
    let mut number = 0;
    while number < 10_000 {
        let run = ledger.next().await;
        assert_eq!(run.first, number);
        assert!(run.results.len() < 1000, "{}", run.results.len());
        number += run.results.len() as u64;
    }
}

/// Whatever the order of answers, drops, time and reading: each record has one result,
/// numbers have no gap, and all bytes and places come back.
#[tokio::test(start_paused = true)]
async fn every_record_has_one_result_and_gives_everything_back() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let stage = Stage::new(Publish {
            max_in_flight_records: dice.u32(1..40),
            ..publish()
        });
        let all = stage.bytes_left();
        let (mut feed, ledger) = stage.stream();
        let records = dice.u32(1..300);
        let taking = tokio::spawn(async move {
            feed.take(drafts(0..records).into_iter()).await;
        });
        let mut numbers = 0;
        while numbers < u64::from(records) {
            settle().await;
            let waiting = stage.fake.waiting();
            match dice.u8(0..10) {
                0 => tokio::time::advance(Duration::from_secs(dice.u64(0..40))).await,
                1 if waiting > 0 => drop(stage.fake.queue.lock().remove(dice.usize(0..waiting))),
                2..=7 if waiting > 0 => stage.fake.confirm(dice.usize(0..waiting)),
                _ => {
                    if let Ok(run) = timeout(Duration::from_millis(1), ledger.next()).await {
                        assert_eq!(run.first, numbers, "seed {seed}");
                        for (number, result) in (numbers..).zip(&run.results) {
                            let offset = result.outcome.as_ref().ok().map(|it| it.offset);
                            assert!(
                                offset.is_none_or(|offset| offset == number as i64),
                                "seed {seed}: {number} has another's answer"
                            );
                        }
                        numbers += run.results.len() as u64;
                        ledger.told(run.results.len());
                    }
                }
            }
        }
        taking.await.expect("it ends");
        let count = ledger.count();
        assert_eq!(count.records, u64::from(records), "seed {seed}");
        assert_eq!(count.written + count.failed, count.records, "seed {seed}");
        stage.fake.confirm_all();
        assert_eq!(stage.bytes_left(), all, "seed {seed}");
        assert_eq!(stage.fake.values().len(), records as usize, "seed {seed}");
    }
}
