//! What an opening asks for: a new subscription is made of it, a running one agrees or not.

use super::*;

#[tokio::test(start_paused = true)]
async fn options_shape_a_new_subscription_over_the_template() {
    let (registry, make) = registry_of(CONFIG);
    let mut target = asking("order", word("none"));
    let start = config::StartAt::Timestamp(1_700_000_000_123);
    target.wishes.ask("start", Wish::Start(start));
    target.wishes.ask("max_attempts", Wish::Number(2));
    target
        .wishes
        .ask("ack_deadline", Wish::Span(Duration::from_millis(1500)));
    target.wishes.ask("dead_letter.topic", word("a.dead"));
    let (handle, _lease) = open(&registry, target.clone()).await.expect("it is made");
    let made = handle.subscription();
    assert_eq!(made.start, start);
    assert_eq!(made.policy.order, ackgate_lane::Order::None);
    assert_eq!(made.policy.max_attempts, 2);
    assert_eq!(made.policy.ack_deadline, Duration::from_millis(1500));
    assert_eq!(
        made.dead_letter.as_ref().map(|it| it.topic.as_str()),
        Some("a.dead")
    );
    assert_eq!(made.linger, LINGER, "the rest is the template's");
    // The same options again contradict nothing.
    open(&registry, target).await.expect("it agrees");
    let mut hold = wanted("main", &["a"], "g2");
    hold.wishes.ask("on_reject", word("hold"));
    let (handle, _lease) = open(&registry, hold)
        .await
        .expect("no topic is needed then");
    assert!(handle.subscription().dead_letter.is_none());
    assert_eq!(make.made.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn filter_and_age_are_options_like_the_others() {
    let (registry, _make) = registry_of(CONFIG);
    let mut target = asking("filter", word(" topic == 'a' "));
    target
        .wishes
        .ask("min_age", Wish::Span(Duration::from_secs(60)));
    let (handle, _lease) = open(&registry, target.clone()).await.expect("it is made");
    let intake = &handle.subscription().intake;
    assert_eq!(intake.min_age, Duration::from_secs(60));
    assert!(intake.filter.is_some());
    open(&registry, target.clone()).await.expect("it agrees");
    let refused = refusal(&registry, asking("filter", word(""))).await;
    let Refused::Contradicts(contradictions) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(contradictions[0].option, "filter");
    assert_eq!(contradictions[0].wanted, "none");
    target.wishes.ask("filter", word("topic =="));
    target.group = "g2".to_owned();
    let refused = refusal(&registry, target).await;
    assert!(matches!(refused, Refused::Options(_)), "{refused:?}");
    let mut without = asking("filter", word(" "));
    without.group = "g2".to_owned();
    let (handle, _lease) = open(&registry, without)
        .await
        .expect("no filter is asked for");
    assert!(handle.subscription().intake.filter.is_none());
}

#[tokio::test(start_paused = true)]
async fn options_that_cannot_stand_are_refused_like_those_of_the_file() {
    let (registry, make) = registry_of(CONFIG);
    let mut both = asking("max_attempts", Wish::Number(0));
    both.wishes
        .ask("ack_deadline", Wish::Span(Duration::from_secs(7200)));
    let mut circle = wanted("main", &["a", "dead"], "g1");
    circle.wishes.ask("on_reject", word("dead_letter"));
    for (target, options) in [
        (both, vec!["ack_deadline", "max_attempts"]),
        (
            asking("max_attempts", Wish::Number(30)),
            vec!["max_deliveries"],
        ),
        (asking("colour", word("blue")), vec!["colour"]),
        (circle, vec!["dead_letter.topic"]),
    ] {
        let Refused::Options(mut refusals) = refusal(&registry, target).await else {
            panic!("{options:?}")
        };
        refusals.sort_by(|a, b| a.option.cmp(&b.option));
        let named: Vec<&str> = refusals.iter().map(|it| it.option.as_str()).collect();
        assert_eq!(named, options);
    }
    assert_eq!(make.made.lock().len(), 1, "nothing was made");
}

#[tokio::test(start_paused = true)]
async fn contradictions_name_every_option_with_both_values() {
    let (registry, _make) = registry_of(CONFIG);
    let mut expect = Wishes::default();
    expect.ask("delivery", word("competing"));
    expect.ask("order", word("none"));
    expect.ask("start", Wish::Start(config::StartAt::Latest));
    expect.ask("dead_letter.topic", word("x"));
    let name = "orders".to_owned();
    let opened = registry.open(Target::Named { name, expect }).await;
    let Err(Refused::Contradicts(contradictions)) = opened else {
        panic!("{opened:?}")
    };
    let told: Vec<_> = contradictions
        .iter()
        .map(|it| (it.option, it.wanted.as_str(), it.running.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("order", "none", "lane"),
            ("start", "latest", "earliest"),
            ("dead_letter.topic", "x", "none"),
        ]
    );
}
