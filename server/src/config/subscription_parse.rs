//! Options of one subscription become a [`Subscription`].

use ackgate_lane::Sharing;

use super::{
    Batch, Delivery, Lease, Subscription, checks, dead_letter_parse, intake_parse,
    options::{self, Spec},
    parse::properties,
    policy_parse::policy,
    reader::Reader,
    start_parse::start,
    tree::Node,
    value::{self, Wrong},
};

/// Reads one subscription. `clusters` are the names that it may refer to.
pub(super) fn subscription(
    reader: &mut Reader<'_>,
    name: &str,
    clusters: &[&str],
) -> Option<Subscription> {
    let cluster = cluster(reader, name, clusters);
    let topics = reader.read(&options::TOPICS, name, topics);
    let group = reader.read(&options::GROUP, name, group);
    let start = reader.read(&options::START, name, start);
    let delivery = delivery(reader, name);
    let policy = policy(reader, name);
    let window_bytes = reader.read(&options::WINDOW_BYTES, name, value::size);
    let batch = batch(reader, name);
    let intake = intake_parse::intake(reader, name);
    let map_bytes = map_bytes(reader, name);
    let linger = reader.read(&options::LINGER, name, value::duration);
    let revoke_drain = reader.read(&options::REVOKE_DRAIN, name, value::duration);
    let resume_grace = reader.read(&options::RESUME_GRACE, name, value::duration);
    let lease = lease(reader, name);
    let cohort_grace = reader.read(&options::COHORT_GRACE, name, value::duration);
    let min_subscribers = reader.read(&options::MIN_SUBSCRIBERS, name, value::small);
    let consumer_properties = properties(reader, &options::CONSUMER_PROPERTIES, name);
    let dead_letter = dead_letter_parse::dead_letter(reader, name, topics.as_deref());
    Some(Subscription {
        name: name.to_owned(),
        cluster: cluster?,
        topics: topics?,
        group: group?,
        start: start?,
        delivery: delivery?,
        policy: policy?,
        window_bytes: window_bytes?,
        batch: batch?,
        intake: intake?,
        map_bytes: map_bytes?,
        linger: linger?,
        revoke_drain: revoke_drain?,
        resume_grace: resume_grace?,
        lease: lease?,
        cohort_grace: cohort_grace?,
        min_subscribers: min_subscribers?,
        dead_letter: dead_letter?,
        consumer_properties: consumer_properties?,
    })
}

/// How records are spread, with what a broadcast needs to know.
fn delivery(reader: &mut Reader<'_>, name: &str) -> Option<Delivery> {
    let delivery = reader.read(&options::DELIVERY, name, value::choice);
    let slow = reader.read(&options::SLOW_SUBSCRIBER, name, value::choice);
    let slow_after = reader.read(&options::SLOW_AFTER, name, value::duration);
    let absent_grace = reader.read(&options::ABSENT_GRACE, name, value::duration);
    if delivery? != "broadcast" {
        checks::only_broadcast(reader, name);
        return Some(Delivery::Competing);
    }
    let slow = slow?;
    checks::slow_after(reader, name, slow);
    let slow_after = slow_after?;
    Some(Delivery::Broadcast(Sharing {
        cut_off_after: (slow == "fail").then_some(slow_after),
        absent_grace: absent_grace?,
    }))
}

/// Four characters of metadata carry three bytes of a map.
fn map_bytes(reader: &mut Reader<'_>, name: &str) -> Option<usize> {
    let is_on = reader.read(&options::COMMIT_ACK_MAP, name, value::flag);
    let text = reader.read(&options::COMMIT_METADATA_BYTES, name, value::small);
    let (is_on, text) = (is_on?, usize::try_from(text?).unwrap_or(usize::MAX));
    Some(if is_on { text / 4 * 3 } else { 0 })
}

fn cluster(reader: &mut Reader<'_>, name: &str, clusters: &[&str]) -> Option<String> {
    reader.read(&options::SUBSCRIPTION_CLUSTER, name, |node, spec| {
        let cluster = value::text(node, spec)?;
        if clusters.contains(&cluster) {
            return Ok(cluster.to_owned());
        }
        let near = super::problem::nearest(cluster, clusters.iter().copied());
        Err(near.map_or_else(
            || format!("is no cluster here; there are: {}", clusters.join(", ")),
            |near| format!("is no cluster here; did you mean {near}?"),
        ))
    })
}

fn batch(reader: &mut Reader<'_>, name: &str) -> Option<Batch> {
    let max_records = reader.read(&options::BATCH_MAX_RECORDS, name, value::small);
    let max_bytes = reader.read(&options::BATCH_MAX_BYTES, name, value::size);
    let linger = reader.read(&options::BATCH_LINGER, name, value::duration);
    let min_fill = reader.read(&options::BATCH_MIN_FILL, name, value::float);
    Some(Batch {
        max_records: max_records?,
        max_bytes: max_bytes?,
        linger: linger?,
        min_fill: min_fill?,
    })
}

/// Checked whatever the order is, so that a change of the order brings no surprise.
fn lease(reader: &mut Reader<'_>, name: &str) -> Option<Lease> {
    let duration = reader.read(&options::LEASE_DURATION, name, value::duration);
    let beat = reader.read(&options::LEASE_BEAT, name, value::duration);
    let (duration, beat) = (duration?, beat?);
    let two = beat.saturating_mul(2);
    if two > duration {
        let why = format!(
            "must be at most half of lease.duration: two beats are {}, the lease is {}, so one \
             late beat would move the lane",
            options::span(two),
            options::span(duration)
        );
        reader.refuse(&options::LEASE_BEAT, name, why);
        return None;
    }
    Some(Lease { duration, beat })
}

fn topics(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    let mut topics = value::texts(node, spec)?;
    for name in &topics {
        topic(name)?;
    }
    topics.sort();
    topics.dedup();
    Ok(topics)
}

/// Kafka's own rule for names of topics.
pub(super) fn topic(name: &str) -> Result<&str, Wrong> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=249).contains(&name.len()) && name.chars().all(legal) && name != "." && name != ".." {
        return Ok(name);
    }
    // Without the name: it may have come from where secrets do.
    Err(
        "is or has what is no topic name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', other than \
         \".\" and \"..\""
            .to_owned(),
    )
}

pub(super) fn group(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    let group = value::text(node, spec)?;
    if group.trim() != group || group.chars().any(char::is_control) {
        return Err("must have no space at its ends and no control characters".to_owned());
    }
    if !(1..=255).contains(&group.len()) {
        return Err(format!("must be {}", spec.expected()));
    }
    Ok(group.to_owned())
}
