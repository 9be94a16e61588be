//! What is found and what is made. On virtual time, with a broker in memory.

mod going;
mod options;

use std::path::Path;

use super::*;
use crate::{
    broker::memory::Memory,
    config::{self, Wish},
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
            tracer: Tracer::off(),
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
        config.health.stalled_after,
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
