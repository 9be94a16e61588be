//! The wait before the first fetch.

use super::*;

fn waiting(cohort_grace: Duration, min_subscribers: u32) -> (Memory, Handle) {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let subscription = Subscription {
        cohort_grace,
        min_subscribers,
        ..configured(Order::None)
    };
    let handle = start_with(&broker, subscription);
    (broker, handle)
}

#[tokio::test(start_paused = true)]
async fn first_fetch_waits_for_as_many_subscribers_as_are_wanted_and_says_so() {
    let (broker, handle) = waiting(Duration::ZERO, 2);
    let mut one = Peer::attach(&handle, 1, 100).await;
    let mut words = Vec::new();
    while !words.iter().any(|word: &String| word.contains("1 more")) {
        match tokio::time::timeout(LONG, one.inbox.recv()).await {
            Ok(Some(Outbound::Lane(news))) => words.push(news.detail),
            other => panic!("{other:?} after {words:?}"),
        }
    }
    assert!(one.is_quiet(LONG).await);
    assert_eq!(broker.with(|state| state.fetched), 0);
    let two = Peer::attach(&handle, 2, 100).await;
    assert_eq!(one.records(5).await.len(), 5);
    // Once it has begun it goes on, whoever goes.
    let gone = Input::Detach(two.session, Departure::Closed);
    two.tell(gone).await;
    broker.append(0, 5..8);
    assert_eq!(one.records(3).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn first_fetch_waits_for_the_grace_of_the_cohort() {
    let (broker, handle) = waiting(LONG / 2, 1);
    let mut one = Peer::attach(&handle, 1, 100).await;
    assert!(one.is_quiet(LONG / 2 - Duration::from_millis(1)).await);
    assert_eq!(broker.with(|state| state.fetched), 0);
    assert_eq!(one.records(5).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn each_joining_of_the_group_waits_anew() {
    let (broker, handle) = waiting(LONG / 2, 1);
    let mut one = Peer::attach(&handle, 1, 100).await;
    one.records(5).await;
    one.tell(Input::Detach(one.session, Departure::Lost)).await;
    tokio::time::sleep(LONG).await;
    let mut two = Peer::attach(&handle, 2, 100).await;
    assert!(two.is_quiet(LONG / 2 - Duration::from_millis(1)).await);
    assert_eq!(broker.with(|state| state.joins), 2);
    assert_eq!(two.records(5).await.len(), 5);
}
