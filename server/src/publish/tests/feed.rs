//! Back-pressure, turns, and what is refused.

use super::*;

#[tokio::test(start_paused = true)]
async fn stream_is_not_fed_beyond_its_places_until_results_are_taken() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    let taking = tokio::spawn(async move { feed.take(drafts(0..25).into_iter()).await });
    settle().await;
    assert_eq!(stage.fake.waiting(), 10);
    stage.fake.confirm_all();
    settle().await;
    assert_eq!(
        stage.fake.waiting(),
        0,
        "results that nobody took keep their places"
    );
    let run = ledger.next().await;
    settle().await;
    assert_eq!(
        stage.fake.waiting(),
        0,
        "nor are they free before they were told"
    );
    ledger.told(run.results.len());
    settle().await;
    assert_eq!(stage.fake.waiting(), 10);
    stage.fake.confirm_all();
    let run = ledger.next().await;
    ledger.told(run.results.len());
    taking.await.expect("it ends");
    assert_eq!(stage.fake.waiting(), 5);
    assert_eq!(stage.fake.values().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_bounded_over_all_streams_and_streams_take_turns() {
    let stage = Stage::new(Publish {
        max_in_flight_records: 10_000,
        ..publish()
    });
    let large = |at: u32| sized(at, 100_000);
    let hogs: Vec<_> = (0..6)
        .map(|_| stage.stream())
        .map(|(mut hog, ledger)| {
            tokio::spawn(async move {
                hog.take((0..20).map(large)).await;
                ledger
            })
        })
        .collect();
    settle().await;
    let first = stage.fake.waiting();
    let bytes = |records: usize| records as u64 * (LIGHT + 100_000);
    assert!(bytes(first) <= 1 << 20, "{first}");
    assert!(bytes(first) > (1 << 20) - 300_000, "{first}");
    let (mut modest, _other) = stage.stream();
    let other = tokio::spawn(async move { modest.take([draft("modest")].into_iter()).await });
    settle().await;
    assert_eq!(stage.fake.waiting(), first, "it waits behind the sixth hog");
    // Freed little by little: the sixth hog has its turn, then the other.
    while !stage.fake.values().contains(&"modest".to_owned()) {
        stage.fake.confirm(0);
        settle().await;
    }
    let values = stage.fake.values();
    assert!(
        values.len() <= first + 3,
        "not after all of the hogs': {}",
        values.len()
    );
    other.await.expect("it ends");
    while !hogs.iter().all(tokio::task::JoinHandle::is_finished) {
        stage.fake.confirm_all();
        settle().await;
    }
    stage.fake.confirm_all();
    assert_eq!(stage.bytes_left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn stream_whose_records_go_nowhere_leaves_bytes_to_others() {
    let stage = Stage::new(Publish {
        max_in_flight_records: 10_000,
        max_in_flight_bytes: 4 << 20,
        ..publish()
    });
    let (mut stuck, _ledger) = stage.stream();
    let large = |at: u32| sized(at, 100_000);
    let hog = tokio::spawn(async move { stuck.take((0..100).map(large)).await });
    settle().await;
    let left = stage.bytes_left();
    assert!(left >= 3 << 20, "{left} bytes are left to others");
    assert!(left < (3 << 20) + 300_000, "a quarter is its own: {left}");
    let (mut other, _other) = stage.stream();
    other.take([draft("other")].into_iter()).await;
    assert!(stage.fake.values().contains(&"other".to_owned()));
    hog.abort();
}

#[tokio::test(start_paused = true)]
async fn record_larger_than_a_streams_share_goes_by_itself() {
    let stage = Stage::new(publish());
    let (mut feed, _ledger) = stage.stream();
    let large = |at: u32| sized(at, 900_000);
    let taking = tokio::spawn(async move { feed.take((0..3).map(large)).await });
    for _ in 0..3 {
        settle().await;
        assert_eq!(stage.fake.waiting(), 1);
        stage.fake.confirm(0);
    }
    taking.await.expect("it ends");
    assert_eq!(stage.bytes_left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn record_counts_all_that_is_kept_of_it_and_never_more_than_there_is() {
    let stage = Stage::new(publish());
    let (mut feed, _ledger) = stage.stream();
    let mut full = draft("value");
    full.record.key = Some("key".to_owned().into());
    let value = Some("12".to_owned().into());
    full.record.headers = vec![("a".to_owned(), None), ("b".to_owned(), value)];
    feed.take([full].into_iter()).await;
    let headers = 2 * crate::publish::HEADER_BYTES + 4;
    let counted = (1 << 20) - stage.bytes_left();
    assert_eq!(counted, LIGHT + 5 + 3 + headers);
    stage.fake.confirm_all();
    // As large as a record may be, and with what is kept beside it more than all bytes.
    feed.take([sized(0, 1 << 20)].into_iter()).await;
    assert_eq!(stage.bytes_left(), 0);
    stage.fake.confirm_all();
    assert_eq!(stage.bytes_left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn full_client_library_is_waited_for_in_order() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    *stage.fake.is_full.lock() = true;
    let taking = tokio::spawn(async move { feed.take(drafts(0..5).into_iter()).await });
    tokio::time::sleep(TIMEOUT / 2).await;
    assert_eq!(stage.fake.waiting(), 0);
    *stage.fake.is_full.lock() = false;
    taking.await.expect("it ends");
    assert_eq!(stage.fake.values(), ["0", "1", "2", "3", "4"]);
    stage.fake.confirm_all();
    assert_eq!(ledger.next().await.results.len(), 5);
    assert_eq!(ledger.count().written, 5, "a full queue is no error");
}

#[tokio::test(start_paused = true)]
async fn full_client_library_is_not_waited_for_beyond_the_time_of_a_record() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    *stage.fake.is_full.lock() = true;
    feed.take(drafts(0..5).into_iter()).await;
    let run = ledger.next().await;
    let whys: Vec<_> = run.results.iter().map(why).collect();
    assert_eq!(whys, [Some(Why::TimedOut); 5]);
    assert_eq!(stage.bytes_left(), 1 << 20, "nothing of it is under way");
}

#[tokio::test(start_paused = true)]
async fn bad_records_are_answered_in_their_places() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    let mut denied = draft("denied");
    denied.record.topic = "other".to_owned();
    denied.record.partition = Some(3);
    let mut invalid = draft("invalid");
    invalid.refused = Some(Unwritten {
        why: Why::Invalid,
        detail: "as the test wants".to_owned(),
    });
    feed.take([draft("a"), denied, invalid, draft("b")].into_iter())
        .await;
    assert_eq!(stage.fake.values(), ["a", "b"]);
    assert_eq!(stage.bytes_left(), (1 << 20) - 2 * (LIGHT + 1));
    stage.fake.confirm_all();
    let results = ledger.next().await.results;
    let whys: Vec<_> = results.iter().map(why).collect();
    assert_eq!(
        whys,
        [None, Some(Why::NotAllowed), Some(Why::Invalid), None]
    );
    assert_eq!(
        (&*results[1].topic, results[1].partition),
        ("other", Some(3))
    );
}

#[tokio::test(start_paused = true)]
async fn drain_refuses_what_is_not_under_way_without_waiting() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    let large = |at: u32| sized(at, 200_000);
    let taking = tokio::spawn(async move { feed.take((0..9).map(large)).await });
    settle().await;
    let under_way = stage.fake.waiting();
    assert!((1..9).contains(&under_way), "{under_way}");
    let stop = stage.desk.clone();
    stop.stop(Duration::ZERO).await;
    taking.await.expect("it does not wait for bytes");
    assert_eq!(stage.fake.waiting(), under_way);
    stage.fake.confirm_all();
    let results = ledger.next().await.results;
    assert_eq!(results.len(), 9);
    for (number, result) in results.iter().enumerate() {
        let expected = (number >= under_way).then_some(Why::Unavailable);
        assert_eq!(why(result), expected, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn feed_that_is_dropped_answers_what_it_took() {
    let stage = Stage::new(publish());
    let (mut feed, ledger) = stage.stream();
    *stage.fake.is_full.lock() = true;
    let taking = tokio::spawn(async move { feed.take(drafts(0..5).into_iter()).await });
    settle().await;
    taking.abort();
    assert!(taking.await.is_err());
    let run = ledger.next().await;
    let whys: Vec<_> = run.results.iter().map(why).collect();
    assert_eq!(whys, [Some(Why::Unavailable); 5]);
    assert_eq!(stage.bytes_left(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn message_at_hand_is_taken_to_its_end_when_nobody_reads_any_more() {
    // A share is a quarter, and all of this is under way in the end.
    let stage = Stage::new(Publish {
        max_in_flight_bytes: 4 << 20,
        ..publish()
    });
    let (mut feed, ledger) = stage.stream();
    let taking = tokio::spawn(async move { feed.take(drafts(0..2000).into_iter()).await });
    settle().await;
    assert_eq!(stage.fake.waiting(), 10);
    ledger.abandon();
    taking.await.expect("it ends");
    assert_eq!(stage.fake.values().len(), 2000);
}
