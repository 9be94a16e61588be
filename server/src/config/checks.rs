//! Rules that hold between options, where each is well by itself. They read what
//! they need once more, so that a mistake elsewhere hides none of theirs; what is
//! reported twice is told once.

use std::collections::BTreeSet;

use ackgate_lane::OnExpired;

use super::{
    Cluster, intake_parse,
    options::{self, Spec, TEMPLATE},
    properties::{scalar, squashed},
    publish_parse,
    reader::{Reader, problem},
    tree::{Node, Origin},
    value,
};

mod exactly_once;
mod retry;

pub(super) use self::{
    exactly_once::exactly_once,
    retry::{retry_topic, retry_topics},
};

/// librdkafka's default of `max.poll.interval.ms`.
const MAX_POLL_INTERVAL_MS: u128 = 300_000;

/// A gateway without a cluster or a subscription has nothing to do.
pub(super) fn presence(reader: &mut Reader<'_>) {
    for (table, example) in [
        ("clusters", "[clusters.main]"),
        ("subscriptions", "[subscriptions.orders]"),
    ] {
        let blocked = reader
            .root
            .get(table)
            .is_some_and(|node| node.table().is_none());
        // Neither what opens ad hoc nor what publishes needs a subscription here.
        let mut clusters = reader.names("clusters").into_iter();
        let elsewhere = table == "subscriptions"
            && (reader.root.contains_key(TEMPLATE[0])
                || clusters.any(|name| publish_parse::is_given(reader.root, name)));
        if reader.names(table).is_empty() && !blocked && !elsewhere {
            let why = format!("is missing: at least one is needed, under a name, as {example}");
            let missing = problem(
                reader.file,
                &Origin::Default,
                &[table.to_owned()],
                None,
                why,
            );
            reader.problems.push(missing);
        }
    }
}

/// One lane must fit into the gateway's memory.
pub(super) fn memory(reader: &mut Reader<'_>, memory: u64) {
    for name in reader.names("subscriptions") {
        let bytes = reader.read(&options::WINDOW_BYTES, name, value::size);
        if bytes.is_some_and(|bytes| bytes > memory) {
            let why = format!(
                "must be at most memory, which is {}: one lane could not fill its window",
                options::size(memory)
            );
            reader.refuse(&options::WINDOW_BYTES, name, why);
        }
    }
}

/// A revoke that waits too long loses the group membership it should hand over.
pub(super) fn revoke_drain(reader: &mut Reader<'_>) {
    for name in reader.names("subscriptions") {
        let Some(drain) = reader.read(&options::REVOKE_DRAIN, name, value::duration) else {
            continue;
        };
        let cluster = reader
            .given(&options::SUBSCRIPTION_CLUSTER, name)
            .and_then(Node::text)
            .unwrap_or_default();
        let tables = [
            reader.given(&options::CONSUMER_PROPERTIES, name),
            reader.given(&options::CLUSTER_PROPERTIES, cluster),
        ];
        let interval = tables
            .into_iter()
            .flatten()
            .find_map(|node| scalar(node.table()?.get("max.poll.interval.ms")?))
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(MAX_POLL_INTERVAL_MS);
        if drain.as_millis() > interval / 2 {
            let why = format!(
                "must be at most half of max.poll.interval.ms, which is {interval}: the group \
                 would take the lanes away before the drain has ended"
            );
            reader.refuse(&options::REVOKE_DRAIN, name, why);
        }
    }
}

/// A time after which nothing happens is a mistake.
pub(super) fn slow_after(reader: &mut Reader<'_>, name: &str, slow: &str) {
    if slow != "fail" && reader.given(&options::SLOW_AFTER, name).is_some() {
        let why = "has a meaning with slow_subscriber = \"fail\" only: with \"pause\" the lane \
                   waits for as long as it takes";
        reader.refuse(&options::SLOW_AFTER, name, why);
    }
}

/// Options about subscribers that owe verdicts of their own.
pub(super) fn only_broadcast(reader: &mut Reader<'_>, name: &str) {
    for spec in [
        &options::SLOW_SUBSCRIBER,
        &options::SLOW_AFTER,
        &options::ABSENT_GRACE,
    ] {
        if reader.given(spec, name).is_some() {
            let why = "has a meaning with delivery = \"broadcast\" only: where subscribers \
                       compete, what one does not answer goes to another";
            reader.refuse(spec, name, why);
        }
    }
}

/// What decides whether two subscriptions take each other's records.
struct Reading<'a> {
    name: &'a str,
    cluster: String,
    group: String,
    topics: Vec<String>,
}

/// Two readings of one topic in one group would take each other's records.
pub(super) fn overlaps(reader: &mut Reader<'_>, clusters: &[Option<Cluster>]) {
    let mut earlier: Vec<Reading<'_>> = Vec::new();
    for name in reader.names("subscriptions") {
        let text = |node: &Node, spec: &Spec| value::text(node, spec).map(str::to_owned);
        let cluster = reader.read(&options::SUBSCRIPTION_CLUSTER, name, text);
        let group = reader.read(&options::GROUP, name, text);
        let topics = reader.read(&options::TOPICS, name, value::texts);
        let (Some(cluster), Some(group), Some(topics)) = (cluster, group, topics) else {
            continue;
        };
        for other in &earlier {
            let shared = topics.iter().find(|topic| other.topics.contains(topic));
            if let Some(topic) = shared
                && group == other.group
                && same_cluster(clusters, &cluster, &other.cluster)
            {
                let why = format!(
                    "is the group of subscription {} too, which also reads {topic} on the same \
                     cluster: each would get a part of the records; use one subscription with \
                     more subscribers, or another group",
                    other.name
                );
                reader.refuse(&options::GROUP, name, why);
            }
        }
        earlier.push(Reading {
            name,
            cluster,
            group,
            topics,
        });
    }
}

/// Whether two names mean the same cluster, as those do that have a broker in common.
fn same_cluster(clusters: &[Option<Cluster>], a: &str, b: &str) -> bool {
    let brokers = |name: &str| -> BTreeSet<&str> {
        let cluster = clusters
            .iter()
            .flatten()
            .find(|cluster| cluster.name == name);
        cluster
            .iter()
            .flat_map(|cluster| &cluster.bootstrap)
            .map(String::as_str)
            .collect()
    };
    a == b || !brokers(a).is_disjoint(&brokers(b))
}

/// Dead letters have a topic, are wanted, and do not come round again.
pub(super) fn dead_letter(reader: &mut Reader<'_>, name: &str, topics: Option<&[String]>) {
    let Some(on_reject) = reader.read(&options::ON_REJECT, name, value::choice) else {
        return;
    };
    let expires = reader.given(&options::MAX_AGE, name).is_some();
    let expired = expires.then(|| intake_parse::on_expired(reader, name));
    let wanted = on_reject == "dead_letter" || expired == Some(Some(OnExpired::DeadLetter));
    let topic = reader.given(&options::DEAD_LETTER_TOPIC, name);
    match (wanted, topic) {
        (true, None) => reader.refuse(
            &options::DEAD_LETTER_TOPIC,
            name,
            if on_reject == "dead_letter" {
                "is missing: on_reject = \"dead_letter\" writes rejected records there; name a \
                 topic, or set on_reject to \"drop\" or \"hold\""
            } else {
                "is missing: on_expired = \"dead_letter\" writes records there that are too old; \
                 name a topic, or set on_expired to \"drop\""
            },
        ),
        (false, Some(_)) => reader.refuse(
            &options::DEAD_LETTER_TOPIC,
            name,
            "would never be written to: set on_reject = \"dead_letter\", or remove it",
        ),
        (true, Some(node)) => {
            let topic = node.text().unwrap_or_default();
            if topics.is_some_and(|topics| topics.iter().any(|read| read == topic)) {
                reader.refuse(
                    &options::DEAD_LETTER_TOPIC,
                    name,
                    "is also read by this subscription: its dead letters would be delivered again \
                     for ever",
                );
            }
        }
        (false, None) => {}
    }
}

/// Makes client properties of the user and password of an address. `None` if they
/// contradict properties that are given; that has been reported.
pub(super) fn credentials(
    reader: &mut Reader<'_>,
    name: &str,
    user: Option<String>,
    password: Option<String>,
    properties: &mut Vec<(String, String)>,
) -> Option<()> {
    let Some(user) = user else { return Some(()) };
    for (property, given) in [
        ("sasl.username", true),
        ("sasl.password", password.is_some()),
    ] {
        if given && value_of(properties, property).is_some() {
            let why = format!("holds what properties.\"{property}\" gives too: give it once");
            reader.refuse(&options::CLUSTER_ADDRESS, name, why);
            return None;
        }
    }
    if let Some(protocol) = value_of(properties, "security.protocol")
        && !protocol.trim().to_ascii_lowercase().starts_with("sasl_")
    {
        let why = "has a user, which properties.\"security.protocol\" would leave unused: set that \
                   to \"sasl_ssl\" or \"sasl_plaintext\"";
        reader.refuse(&options::CLUSTER_ADDRESS, name, why);
        return None;
    }
    let mut default = |property: &str, value: &str| {
        if value_of(properties, property).is_none() {
            properties.push((property.to_owned(), value.to_owned()));
        }
    };
    // A password goes over the network encrypted unless somebody asks for less.
    default("security.protocol", "sasl_ssl");
    default("sasl.mechanisms", "PLAIN");
    properties.push(("sasl.username".to_owned(), user));
    if let Some(password) = password {
        properties.push(("sasl.password".to_owned(), password));
    }
    properties.sort();
    Some(())
}

/// The value of a property, also under the spelling of its alias.
fn value_of<'a>(properties: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let same = |given: &str| {
        let (given, name) = (squashed(given), squashed(name));
        given == name
            || given.strip_suffix('s').unwrap_or(&given) == name.strip_suffix('s').unwrap_or(&name)
    };
    properties
        .iter()
        .find(|(given, _)| same(given))
        .map(|(_, value)| value.as_str())
}
