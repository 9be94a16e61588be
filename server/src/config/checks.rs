//! Rules that hold between options, where each is well by itself.

use std::collections::BTreeSet;

use ackgate_lane::OnReject;

use super::{
    Cluster, Subscription, options,
    properties::squashed,
    reader::{Reader, problem},
    tree::Origin,
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
        if reader.names(table).is_empty() && !blocked {
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
pub(super) fn memory(reader: &mut Reader<'_>, memory: u64, subscriptions: &[Option<Subscription>]) {
    for subscription in subscriptions.iter().flatten() {
        if subscription.window_bytes > memory {
            let why = format!(
                "must be at most memory, which is {}: one lane could not fill its window",
                options::size(memory)
            );
            reader.refuse(&options::WINDOW_BYTES, &subscription.name, why);
        }
    }
}

/// A revoke that waits too long loses the group membership it should hand over.
pub(super) fn revoke_drain(reader: &mut Reader<'_>, subscriptions: &[Option<Subscription>]) {
    for subscription in subscriptions.iter().flatten() {
        let of_cluster = reader.given(&options::CLUSTER_PROPERTIES, &subscription.cluster);
        let inherited = of_cluster
            .and_then(|node| node.table()?.get("max.poll.interval.ms"))
            .and_then(super::properties::scalar);
        let interval = value_of(&subscription.consumer_properties, "max.poll.interval.ms")
            .map(str::to_owned)
            .or(inherited)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(MAX_POLL_INTERVAL_MS);
        if subscription.revoke_drain.as_millis() > interval / 2 {
            let why = format!(
                "must be at most half of max.poll.interval.ms, which is {interval}: the group \
                 would take the lanes away before the drain has ended"
            );
            reader.refuse(&options::REVOKE_DRAIN, &subscription.name, why);
        }
    }
}

/// Two readings of one topic in one group would take each other's records.
pub(super) fn overlaps(
    reader: &mut Reader<'_>,
    clusters: &[Option<Cluster>],
    subscriptions: &[Option<Subscription>],
) {
    let same_cluster = |a: &str, b: &str| {
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
    };
    let all: Vec<&Subscription> = subscriptions.iter().flatten().collect();
    for (at, later) in all.iter().enumerate() {
        for earlier in all.iter().take(at) {
            let shared = later
                .topics
                .iter()
                .find(|topic| earlier.topics.contains(topic));
            if let Some(topic) = shared
                && earlier.group == later.group
                && same_cluster(&earlier.cluster, &later.cluster)
            {
                let why = format!(
                    "is the group of subscription {} too, which also reads {topic} on the same \
                     cluster: each would get a part of the records; use one subscription with \
                     more subscribers, or another group",
                    earlier.name
                );
                reader.refuse(&options::GROUP, &later.name, why);
            }
        }
    }
}

/// Dead letters have a topic, are wanted, and do not come round again.
pub(super) fn dead_letter(
    reader: &mut Reader<'_>,
    name: &str,
    on_reject: OnReject,
    topics: Option<&[String]>,
) {
    let topic = reader.given(&options::DEAD_LETTER_TOPIC, name);
    match (on_reject, topic) {
        (OnReject::DeadLetter, None) => reader.refuse(
            &options::DEAD_LETTER_TOPIC,
            name,
            "is missing: on_reject = \"dead_letter\" writes rejected records there; name a topic, \
             or set on_reject to \"drop\" or \"hold\"",
        ),
        (OnReject::Drop | OnReject::Hold, Some(_)) => reader.refuse(
            &options::DEAD_LETTER_TOPIC,
            name,
            "would never be written to: set on_reject = \"dead_letter\", or remove it",
        ),
        (OnReject::DeadLetter, Some(node)) => {
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
        (OnReject::Drop | OnReject::Hold, None) => {}
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
