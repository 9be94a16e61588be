//! Who may write where, with which producer.

use super::{
    super::{NoPlace, Patience},
    *,
};

fn terms(timeout: Duration) -> Terms {
    Terms {
        acks: Acks::All,
        is_idempotent: true,
        timeout,
    }
}

#[tokio::test]
async fn place_is_the_named_cluster_or_the_only_one() {
    let maker = Arc::new(Maker::default()) as Arc<dyn Make>;
    let on = |cluster: &str| Publish {
        cluster: cluster.to_owned(),
        ..publish()
    };
    let names = || ["a", "b", "c"].map(str::to_owned).to_vec();
    let found = |desk: &Desk, name: &str| {
        let place = desk.place(name);
        place.map(|place| place.publish().cluster.clone())
    };
    let two = Desk::new(names(), vec![on("a"), on("b")], &maker);
    assert_eq!(found(&two, "b"), Ok("b".to_owned()));
    assert_eq!(found(&two, ""), Err(NoPlace::Ambiguous));
    assert_eq!(found(&two, "c"), Err(NoPlace::Off));
    assert_eq!(found(&two, "d"), Err(NoPlace::Unknown));
    let one = Desk::new(names(), vec![on("b")], &maker);
    assert_eq!(found(&one, ""), Ok("b".to_owned()));
    let none = Desk::new(names(), Vec::new(), &maker);
    assert_eq!(found(&none, ""), Err(NoPlace::Off));
}

#[tokio::test]
async fn producer_is_made_once_for_each_choice_however_many_ask_at_once() {
    let stage = Stage::new(publish());
    let usual = terms(TIMEOUT);
    let made = || stage.maker.made.load(Ordering::Relaxed);
    let asked = (0..20).map(|_| stage.place.producer(usual));
    futures::future::try_join_all(asked)
        .await
        .expect("it can be made");
    assert_eq!(made(), 1);
    for (again, number) in [
        (terms(Duration::from_millis(100)), 1),
        (terms(TIMEOUT + Duration::from_millis(1)), 2),
        (terms(Patience::Long.time()), 2),
        (
            Terms {
                is_idempotent: false,
                ..usual
            },
            3,
        ),
        (
            Terms {
                acks: Acks::None,
                is_idempotent: false,
                ..usual
            },
            4,
        ),
    ] {
        stage.place.producer(again).await.expect("it can be made");
        assert_eq!(made(), number, "{again:?}");
    }
}

#[tokio::test]
async fn producer_that_cannot_be_made_is_tried_again_when_it_is_asked_for_again() {
    let stage = Stage::new(publish());
    *stage.maker.fails.lock() = true;
    stage.place.producer(terms(TIMEOUT)).await.unwrap_err();
    *stage.maker.fails.lock() = false;
    stage
        .place
        .producer(terms(TIMEOUT))
        .await
        .expect("it can be made");
}

#[tokio::test]
async fn number_of_topics_is_limited() {
    let stage = Stage::new(publish());
    for number in 0..10_000 {
        let topic = format!("t{number}");
        stage.place.admit(&topic).expect("it is allowed");
    }
    stage.place.admit("t9999").expect("it is known");
    let refused = stage.place.admit("t10000").unwrap_err();
    assert_eq!(refused.why, Why::NotAllowed, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_streams_and_not_for_ever() {
    let stage = Stage::new(publish());
    let entered = stage.desk.enter();
    let desk = stage.desk.clone();
    let stopping = tokio::spawn(async move { desk.stop(TIMEOUT).await });
    tokio::time::sleep(TIMEOUT / 2).await;
    assert!(!stopping.is_finished());
    drop(entered);
    settle().await;
    assert!(stopping.is_finished());
    let stuck = stage.desk.enter();
    let begin = tokio::time::Instant::now();
    stage.desk.stop(TIMEOUT).await;
    assert!(begin.elapsed() >= TIMEOUT);
    assert!(begin.elapsed() <= TIMEOUT + Duration::from_secs(2));
    drop(stuck);
}
