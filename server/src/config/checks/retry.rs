//! A retry topic belongs to one subscription, and nothing goes round in it by itself.

use super::super::{
    Cluster,
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    value,
};

/// What one subscription does with topics.
#[derive(Debug)]
struct Use<'a> {
    name: &'a str,
    cluster: String,
    topics: Vec<String>,
    dead_letters: Option<String>,
    retry: Option<String>,
}

/// What can be said of one subscription alone.
pub(in crate::config) fn retry_topic(
    reader: &mut Reader<'_>,
    name: &str,
    topics: Option<&[String]>,
) {
    let spec = &options::DEAD_LETTER_RETRY_TOPIC;
    let Some(node) = reader.given(spec, name) else {
        return;
    };
    let topic = node.text().unwrap_or_default();
    let dead_letters = reader.given(&options::DEAD_LETTER_TOPIC, name);
    let why = if dead_letters.is_none() {
        "needs dead_letter.topic: what is put back comes from there"
    } else if dead_letters.and_then(Node::text) == Some(topic) {
        "is dead_letter.topic too: every dead letter would be delivered again for ever"
    } else if topics.is_some_and(|topics| topics.iter().any(|read| read == topic)) {
        "is among topics too: put back into a source, records would reach its other readers again"
    } else {
        return;
    };
    reader.refuse(spec, name, why);
}

/// What can be said of a retry topic and the other subscriptions.
pub(in crate::config) fn retry_topics(reader: &mut Reader<'_>, clusters: &[Option<Cluster>]) {
    let mut all: Vec<Use<'_>> = Vec::new();
    for name in reader.names("subscriptions") {
        let text = |node: &Node, spec: &Spec| value::text(node, spec).map(str::to_owned);
        let Some(cluster) = reader.read(&options::SUBSCRIPTION_CLUSTER, name, text) else {
            continue;
        };
        let topics = reader.read(&options::TOPICS, name, value::texts);
        let given = |reader: &Reader<'_>, spec| {
            let node = reader.given(spec, name)?;
            node.text().map(str::to_owned)
        };
        all.push(Use {
            name,
            cluster,
            topics: topics.unwrap_or_default(),
            dead_letters: given(reader, &options::DEAD_LETTER_TOPIC),
            retry: given(reader, &options::DEAD_LETTER_RETRY_TOPIC),
        });
    }
    for (at, mine) in all.iter().enumerate() {
        let Some(topic) = &mine.retry else { continue };
        for (other_at, other) in all.iter().enumerate() {
            if other_at == at || !super::same_cluster(clusters, &mine.cluster, &other.cluster) {
                continue;
            }
            let of = if other.topics.contains(topic) {
                "one of the topics"
            } else if other.dead_letters.as_ref() == Some(topic) {
                "the dead-letter topic"
            } else if other.retry.as_ref() == Some(topic) && other_at < at {
                "the retry topic"
            } else {
                continue;
            };
            let why = format!(
                "is {of} of subscription {} on the same cluster: what is put back is for this \
                 subscription alone",
                other.name
            );
            reader.refuse(&options::DEAD_LETTER_RETRY_TOPIC, mine.name, why);
        }
    }
}
