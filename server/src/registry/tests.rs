//! What is found, what is made, and when it goes. On virtual time, with a broker in
//! memory.

use std::path::Path;

use tokio::task::JoinSet;

use super::*;
use crate::{
    broker::memory::Memory,
    config::{self, Wish},
    consumer::{Input, State as DriverState},
};

const CONFIG: &str = r#"
[clusters]
main.address = "kafka://a:1"
same.address = "kafka://b:1,a:1"
other.address = "kafka://c:1"
[subscriptions.orders]
cluster = "main"
topics = ["b", "a"]
group = "declared"
start = "earliest"
order = "lane"
on_reject = "hold"
[ad_hoc]
clusters = ["main", "same"]
topics = ["*", "__mine", "dead"]
groups = ["g?", "declared"]
dead_letter_topics = ["*.dead"]
max_subscriptions = 2
[ad_hoc.template]
start = "earliest"
order = "lane"
skip_acked = true
on_reject = "dead_letter"
dead_letter.topic = "dead"
linger = "10s"
"#;

const LINGER: Duration = Duration::from_secs(10);

/// Makes drivers on one broker in memory, and counts them.
#[derive(Debug, Default)]
struct InMemory {
    broker: Memory,
    made: Mutex<Vec<Subscription>>,
}

impl Make for InMemory {
    fn make(&self, subscription: &Subscription, _: Source) -> Result<Made, broker::Error> {
        self.made.lock().push(subscription.clone());
        let producer = Arc::new(self.broker.clone()) as Arc<dyn Producer>;
        Ok(Made {
            connect: Arc::new(self.broker.clone()),
            producer: subscription.dead_letter.is_some().then_some(producer),
        })
    }
}

fn registry_of(text: &str) -> (Registry, Arc<InMemory>) {
    let config = config::parse(text, Path::new("test"), []).expect("it is valid");
    let make = Arc::new(InMemory::default());
    let registry = Registry::start(
        config.subscriptions,
        config.ad_hoc,
        &config.clusters,
        Budget::new(1 << 30),
        Arc::clone(&make) as Arc<dyn Make>,
    );
    (registry.expect("nothing is refused"), make)
}

fn wanted(cluster: &str, topics: &[&str], group: &str) -> Wanted {
    Wanted {
        cluster: cluster.to_owned(),
        topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        group: group.to_owned(),
        wishes: Wishes::default(),
    }
}

fn asking(option: &'static str, wish: Wish) -> Wanted {
    let mut wanted = wanted("main", &["a"], "g1");
    wanted.wishes.ask(option, wish);
    wanted
}

fn word(word: &str) -> Wish {
    Wish::Text(word.to_owned())
}

async fn open(registry: &Registry, wanted: Wanted) -> Result<(Handle, Lease), Refused> {
    registry.open(Target::AdHoc(wanted)).await
}

async fn refusal(registry: &Registry, wanted: Wanted) -> Refused {
    let opened = open(registry, wanted).await;
    opened.expect_err("it is refused")
}

#[tokio::test(start_paused = true)]
async fn openings_of_the_same_are_one_subscription_and_another_set_is_refused() {
    let (registry, make) = registry_of(CONFIG);
    let same = || wanted("main", &["a", "c"], "g1");
    let (one, _lease) = open(&registry, same()).await.expect("the first");
    let (other, _lease_too) = open(&registry, same()).await.expect("the second");
    assert!(std::ptr::eq(one.subscription(), other.subscription()));
    assert_eq!(one.subscription().name, "ad-hoc/main/g1");
    for another in [
        wanted("main", &["a"], "g1"),
        wanted("main", &["a", "b", "c"], "g1"),
        // The same brokers by another name, so the same group.
        wanted("same", &["a", "c"], "g1"),
        wanted("main", &["a"], "declared"),
    ] {
        let refused = refusal(&registry, another.clone()).await;
        assert!(matches!(refused, Refused::GroupTaken), "{another:?}");
    }
    assert_eq!(make.made.lock().len(), 2, "the declared one and this");
}

#[tokio::test(start_paused = true)]
async fn opening_of_what_is_declared_attaches_to_it() {
    let (registry, make) = registry_of(CONFIG);
    let target = wanted("main", &["a", "b"], "declared");
    let (handle, _lease) = open(&registry, target.clone()).await.expect("it runs");
    assert_eq!(handle.subscription().name, "orders");
    assert_eq!(make.made.lock().len(), 1);
    let mut contradicting = target;
    contradicting.wishes.ask("order", word("none"));
    let refused = refusal(&registry, contradicting).await;
    assert!(matches!(refused, Refused::Contradicts(_)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_rules_do_not_allow_is_refused() {
    let (registry, make) = registry_of(CONFIG);
    let denied = |refused| {
        let Refused::Denied(denied) = refused else {
            panic!("{refused:?}")
        };
        denied
    };
    let of = |cluster, topic, group| wanted(cluster, &[topic], group);
    assert_eq!(
        denied(refusal(&registry, of("other", "a", "g1")).await),
        Denied::Cluster
    );
    assert_eq!(
        denied(refusal(&registry, of("main", "a", "g12")).await),
        Denied::Group
    );
    // A star does not open Kafka's own topics.
    let own = Denied::Topic("__consumer_offsets".to_owned());
    assert_eq!(
        denied(refusal(&registry, of("main", "__consumer_offsets", "g1")).await),
        own
    );
    let elsewhere = asking("dead_letter.topic", word("orders"));
    assert_eq!(
        denied(refusal(&registry, elsewhere).await),
        Denied::DeadLetterTopic
    );
    let refused = refusal(&registry, of("nowhere", "a", "g1")).await;
    assert!(matches!(refused, Refused::UnknownCluster), "{refused:?}");
    assert_eq!(make.made.lock().len(), 1, "nothing was made");
    open(&registry, of("main", "__mine", "g1"))
        .await
        .expect("it is named");

    let (head, _) = CONFIG.split_once("[ad_hoc]").expect("a section");
    let (off, _) = registry_of(head);
    let refused = refusal(&off, of("main", "a", "g1")).await;
    assert!(matches!(refused, Refused::Off), "{refused:?}");
}

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
