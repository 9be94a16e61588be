//! When a subscription goes, and what an opening meets meanwhile.

use tokio::task::JoinSet;

use super::*;
use crate::consumer::{Input, State as DriverState};

#[tokio::test(start_paused = true)]
async fn subscription_goes_its_linger_after_the_last_lease_and_makes_room() {
    let (registry, make) = registry_of(CONFIG);
    let (handle, lease) = open(&registry, wanted("main", &["a"], "g1"))
        .await
        .expect("1");
    let (_other, _kept) = open(&registry, wanted("main", &["a"], "g2"))
        .await
        .expect("2");
    let refused = refusal(&registry, wanted("main", &["a"], "g3")).await;
    assert!(matches!(refused, Refused::Full(2)), "{refused:?}");
    drop(lease);
    tokio::time::sleep(LINGER / 2).await;
    let (again, lease) = open(&registry, wanted("main", &["a"], "g1"))
        .await
        .expect("it waits");
    assert!(std::ptr::eq(handle.subscription(), again.subscription()));
    tokio::time::sleep(2 * LINGER).await;
    assert_ne!(handle.state(), DriverState::Stopped, "somebody has it");
    drop(lease);
    let mut stopping = handle.clone();
    let stopped = tokio::time::timeout(2 * LINGER, stopping.stopped());
    stopped.await.expect("nobody has it");
    let opened = open(&registry, wanted("main", &["b"], "g1")).await;
    opened.expect("the group is free for other topics, and there is room");
    assert_eq!(make.made.lock().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn leased_subscription_is_not_retired_and_a_retired_one_is_not_leased() {
    let (registry, make) = registry_of(CONFIG);
    let group = Group {
        place: registry.shared.places.find("main").expect("a cluster"),
        name: "g1".to_owned(),
    };
    let target = || wanted("main", &["a"], "g1");
    let (handle, lease) = open(&registry, target()).await.expect("it is open");
    assert!(!registry.shared.retire(&group), "somebody has it");
    drop(lease);
    assert!(registry.shared.retire(&group), "nobody has it");
    let mut opening = std::pin::pin!(open(&registry, target()));
    let early = tokio::time::timeout(LINGER / 2, &mut opening).await;
    assert!(early.is_err(), "the old one has not gone yet: {early:?}");
    registry.shared.forget(&group);
    let (another, _lease) = opening.await.expect("the old one has gone");
    assert!(!std::ptr::eq(handle.subscription(), another.subscription()));
    assert_eq!(make.made.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn subscription_that_does_not_go_is_not_awaited_for_ever() {
    let text = CONFIG.replace("linger = \"10s\"", "linger = \"60s\"");
    let (registry, _make) = registry_of(&text);
    let place = registry.shared.places.find("main").expect("a cluster");
    let target = || wanted("main", &["a"], "g1");
    drop(open(&registry, target()).await.expect("it is open"));
    let name = "g1".to_owned();
    assert!(registry.shared.retire(&Group { place, name }));
    let refused = refusal(&registry, target()).await;
    assert!(matches!(refused, Refused::Leaving), "{refused:?}");
}

// A lease that came with a handle of a driver on its way out would lose its session.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_attaches_to_a_dying_subscription() {
    let text = CONFIG.replace("linger = \"10s\"", "linger = \"0s\"");
    let (registry, make) = registry_of(&text);
    let seed = fastrand::u64(..);
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let registry = registry.clone();
        let mut random = fastrand::Rng::with_seed(seed ^ task);
        tasks.spawn(async move {
            for _ in 0..50 {
                let opened = open(&registry, wanted("main", &["a"], "g1")).await;
                let (handle, lease) = opened.expect("one group, one set of topics");
                for _ in 0..random.u8(..4) {
                    tokio::task::yield_now().await;
                }
                let credit = Input::Credit(
                    crate::consumer::Session(0),
                    crate::consumer::Credit::default(),
                );
                let heard = handle.send(credit).await;
                assert!(heard.is_ok(), "seed {seed}: its driver has ended");
                drop(lease);
                tokio::time::sleep(Duration::from_millis(random.u64(..3))).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task failed");
    }
    assert!(
        make.made.lock().len() > 3,
        "seed {seed}: it never went in between"
    );
}

#[tokio::test(start_paused = true)]
async fn closed_registry_opens_nothing_and_hands_out_all_that_runs() {
    let (registry, _make) = registry_of(CONFIG);
    let _opened = open(&registry, wanted("main", &["a"], "g1"))
        .await
        .expect("it is open");
    let Closing {
        subscriptions,
        producers,
    } = registry.close();
    let mut names: Vec<String> = subscriptions.into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["ad-hoc/main/g1", "orders"]);
    assert_eq!(producers.len(), 1, "only one of them has dead letters");
    let refused = refusal(&registry, wanted("main", &["a"], "g1")).await;
    assert!(matches!(refused, Refused::Stopping), "{refused:?}");
    let name = "orders".to_owned();
    let expect = Wishes::default();
    let named = registry.open(Target::Named { name, expect }).await;
    assert!(matches!(named, Err(Refused::Stopping)), "{named:?}");
}
