//! What may be published: which topics, with which promises.

use super::super::{Acks, Publish};
use super::{LEAST, load_with, messages, orders};

/// [`LEAST`] with lines for publishing to its cluster.
fn with(lines: &str) -> String {
    format!("{LEAST}[clusters.main.publish]\n{lines}\n")
}

fn loaded(text: &str) -> Publish {
    let mut config = load_with(text, &[]).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(config.publish.len(), 1);
    config.publish.remove(0)
}

/// The one complaint about a text.
fn refused(text: &str) -> String {
    let messages = messages(text, &[]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.into_iter().next().expect("there is one")
}

#[test]
fn nothing_is_published_without_the_table() {
    assert!(
        load_with(LEAST, &[])
            .expect("it is valid")
            .publish
            .is_empty()
    );
}

#[test]
fn least_table_has_the_documented_defaults() {
    let publish = loaded(&with("topics = [\"orders\"]"));
    assert_eq!(publish.cluster, "main");
    assert_eq!(publish.acks, Acks::All);
    assert!(publish.is_idempotent(Acks::All));
    assert!(!publish.is_idempotent(Acks::Leader));
    assert_eq!(publish.max_record_bytes, 1 << 20);
    assert_eq!(publish.max_in_flight_records, 10_000);
    assert_eq!(publish.max_in_flight_bytes, 32 << 20);
}

#[test]
fn publishing_needs_no_subscription() {
    let text = "[clusters.main]\naddress = \"kafka://broker\"\npublish.topics = [\"orders\"]";
    loaded(text);
}

#[test]
fn topics_are_required_and_must_be_ones_that_can_be_written_to() {
    for (topics, why) in [
        ("", "is missing"),
        ("topics = []", "at least one"),
        ("topics = [\"a b\"]", "fits no topic name"),
        ("topics = [\"a?\"]", "question mark"),
        ("topics = [\"__consumer_offsets\"]", "Kafka's own"),
        ("topics = [\"__*\"]", "Kafka's own"),
    ] {
        let message = refused(&with(topics));
        assert!(
            message.contains("clusters.main.publish.topics"),
            "{message}"
        );
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn pattern_opens_neither_kafkas_own_topics_nor_those_of_dead_letters_and_retries() {
    let with = |topics: &str| {
        let text = format!(
            "{LEAST}[ad_hoc]\nclusters = [\"main\"]\ntopics = [\"*\"]\ngroups = [\"*\"]\n\
             dead_letter_topics = [\"*.dlq\"]\ntemplate.start = \"latest\"\n\
             template.dead_letter.topic = \"hoc.dead\"\n\
             [clusters.main.publish]\ntopics = [{topics}]"
        );
        loaded(&text)
    };
    let all = with("\"*\"");
    for (topic, allowed) in [
        ("orders", true),
        ("_orders", true),
        ("orders.dead", false),
        ("hoc.dead", false),
        ("any.dlq", false),
        ("__consumer_offsets", false),
    ] {
        assert_eq!(all.allows(topic), allowed, "{topic}");
    }
    let some = with("\"ord*s\", \"orders.dead\", \"any.dlq\"");
    for (topic, allowed) in [
        ("orders", true),
        ("ords", true),
        ("order", false),
        ("Orders", false),
        ("orders.dead", true),
        ("any.dlq", true),
        ("other.dlq", false),
        ("other", false),
    ] {
        assert_eq!(some.allows(topic), allowed, "{topic}");
    }
}

#[test]
fn retry_topics_are_reserved_by_their_own_names() {
    let root = super::super::tree::parse(
        "[subscriptions.a.dead_letter]\nretry_topic = \"a.retry\"\ntopic = \"a.dead\"",
        "file",
    );
    let root = root.unwrap_or_else(|problems| panic!("{problems:?}"));
    let reserved = super::super::publish_parse::reserved(&root);
    assert_eq!(reserved, ["a.dead", "a.retry"]);
}

#[test]
fn idempotence_needs_acks_of_all() {
    for acks in ["leader", "none"] {
        let text = format!("topics = [\"a\"]\nacks = \"{acks}\"\nidempotence = true");
        let message = refused(&with(&text));
        assert!(message.contains("publish.idempotence"), "{message}");
        assert!(message.contains("needs acks = \"all\""), "{message}");
        let without = loaded(&with(&format!("topics = [\"a\"]\nacks = \"{acks}\"")));
        assert!(!without.is_idempotent(without.acks));
        assert!(without.is_idempotent(Acks::All), "for who asks for more");
    }
    let off = loaded(&with("topics = [\"a\"]\nidempotence = false"));
    assert!(!off.is_idempotent(Acks::All));
}

#[test]
fn record_must_fit_into_what_may_be_under_way() {
    let text = "topics = [\"a\"]\nmax_record_bytes = \"2MiB\"\nmax_in_flight_bytes = \"1MiB\"";
    let message = refused(&with(text));
    assert!(message.contains("publish.max_record_bytes"), "{message}");
    assert!(message.contains("1MiB"), "{message}");
}

#[test]
fn properties_that_are_options_or_the_gateways_own_are_refused() {
    for (property, hint) in [
        ("acks = \"all\"", "`acks` of `publish`"),
        ("\"request.required.acks\" = 1", "`acks` of `publish`"),
        (
            "\"enable.idempotence\" = true",
            "`idempotence` of `publish`",
        ),
        ("\"transactional.id\" = \"x\"", "is refused"),
        ("\"bootstrap.servers\" = \"x\"", "is refused"),
        ("\"delivery.timeout.ms\" = 0", "above 0"),
    ] {
        let text = format!("topics = [\"a\"]\n[clusters.main.publish.producer]\n{property}");
        let message = refused(&with(&text));
        assert!(
            message.contains("clusters.main.publish.producer"),
            "{message}"
        );
        assert!(message.contains(hint), "{message}");
    }
    let text = "topics = [\"a\"]\nproducer.\"linger.ms\" = 50\nproducer.\"batch.size\" = 32000";
    let passed = loaded(&with(text)).producer_properties;
    let linger = ("linger.ms".to_owned(), "50".to_owned());
    assert!(passed.contains(&linger), "{passed:?}");
}

#[test]
fn effective_settings_and_debug_show_no_secret_of_a_producer() {
    let text = "topics = [\"a\"]\nproducer.\"sasl.password\" = \"hunter2\"";
    let config = load_with(&with(text), &[]).expect("it is valid");
    let shown = format!("{:?} {config:?}", config.effective());
    assert!(!shown.contains("hunter2"), "{shown}");
    let part = config.effective();
    let part = part
        .iter()
        .find(|(part, _)| part == "clusters.main.publish");
    let (_, settings) = part.expect("it is a part of its own");
    assert!(
        settings.contains("topics=a; acks=all; idempotence=true"),
        "{settings}"
    );
}

#[test]
fn mistakes_are_told_together() {
    let text = orders("[clusters.main.publish]\nacks = \"some\"\nmax_in_flight_records = 0");
    let messages = messages(&text, &[]);
    assert_eq!(messages.len(), 3, "{messages:?}");
}
