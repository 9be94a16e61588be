//! Options of one subscription become a [`Subscription`].

use ackgate_lane::{Backoff, OnReject, Order, Policy, Sharing, Window};

use super::{
    Batch, Copying, DeadLetter, Delivery, ExactlyOnce, Lease, StartAt, Subscription, checks,
    intake_parse,
    options::{self, Spec},
    parse::properties,
    reader::Reader,
    tree::{Node, Value},
    unwritten_parse,
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
    let dead_letter_topic = reader.read(&options::DEAD_LETTER_TOPIC, name, |node, spec| {
        topic(value::text(node, spec)?).map(str::to_owned)
    });
    let retry_topic = reader.read(&options::DEAD_LETTER_RETRY_TOPIC, name, |node, spec| {
        topic(value::text(node, spec)?).map(str::to_owned)
    });
    let copying = Copying::read(reader, name);
    let producer_properties = properties(reader, &options::DEAD_LETTER_PRODUCER, name);
    checks::dead_letter(reader, name, topics.as_deref());
    checks::retry_topic(reader, name, topics.as_deref());
    let exactly_once = exactly_once(reader, name);
    let (copying, producer_properties) = (copying?, producer_properties?);
    let exactly_once = exactly_once?;
    let dead_letter = dead_letter_topic.map(|topic| DeadLetter {
        topic,
        retry_topic,
        exactly_once,
        copying,
        producer_properties,
    });
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
        dead_letter,
        consumer_properties: consumer_properties?,
    })
}

/// Whether dead letters and commits are made one, and how.
fn exactly_once(reader: &mut Reader<'_>, name: &str) -> Option<Option<ExactlyOnce>> {
    let is_on = reader.read(&options::DEAD_LETTER_EXACTLY_ONCE, name, value::flag);
    let timeout = reader.read(
        &options::DEAD_LETTER_TRANSACTION_TIMEOUT,
        name,
        value::duration,
    );
    let id = match reader.given(&options::DEAD_LETTER_TRANSACTIONAL_ID, name) {
        Some(_) => Some(reader.read(
            &options::DEAD_LETTER_TRANSACTIONAL_ID,
            name,
            transactional_id,
        )?),
        None => None,
    };
    checks::exactly_once(reader, name, is_on?);
    let timeout = timeout?;
    Some(is_on?.then_some(ExactlyOnce {
        transaction_timeout: timeout,
        transactional_id: id,
    }))
}

fn transactional_id(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    let id = value::text(node, spec)?;
    let is_valid = (1..=200).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if is_valid {
        Ok(id.to_owned())
    } else {
        Err("must be 1 to 200 of a-z, A-Z, 0-9, '.', '_' and '-'".to_owned())
    }
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

fn policy(reader: &mut Reader<'_>, name: &str) -> Option<Policy> {
    let order = order(reader, name);
    let ack_deadline = reader.read(&options::ACK_DEADLINE, name, value::duration);
    let max_attempts = reader.read(&options::MAX_ATTEMPTS, name, value::small);
    let max_deliveries = reader.read(&options::MAX_DELIVERIES, name, value::small);
    let backoff = backoff(
        reader,
        name,
        [
            &options::BACKOFF_INITIAL,
            &options::BACKOFF_FACTOR,
            &options::BACKOFF_MAX,
        ],
    );
    let dead_letter_backoff = backoff_of_dead_letters(reader, name);
    let on_unwritten = unwritten_parse::on_unwritten(reader, name);
    let breaker = unwritten_parse::breaker(reader, name);
    let on_reject = reader.read(&options::ON_REJECT, name, value::choice);
    let records = reader.read(&options::WINDOW_RECORDS, name, value::small);
    let span = reader.read(&options::WINDOW_SPAN, name, value::integer);
    let commit_interval = reader.read(&options::COMMIT_INTERVAL, name, value::duration);
    let commit_settlements = reader.read(&options::COMMIT_SETTLEMENTS, name, value::integer);

    if let (Some(attempts), Some(deliveries)) = (max_attempts, max_deliveries)
        && deliveries < attempts
    {
        let why = format!(
            "must be at least max_attempts, which is {attempts}: every attempt is a delivery, so \
             the attempts could never be used up"
        );
        reader.refuse(&options::MAX_DELIVERIES, name, why);
    }
    if let (Some(records), Some(span)) = (records, span)
        && u64::from(records) > span
    {
        let why = format!(
            "must be at most window.span, which is {span}: so many records never fit into fewer \
             offsets"
        );
        reader.refuse(&options::WINDOW_RECORDS, name, why);
    }
    Some(Policy {
        order: order?,
        ack_deadline: ack_deadline?,
        max_attempts: max_attempts?,
        max_deliveries: max_deliveries?,
        backoff: backoff?,
        on_reject: match on_reject? {
            "drop" => OnReject::Drop,
            "hold" => OnReject::Hold,
            _ => OnReject::DeadLetter,
        },
        dead_letter_backoff: dead_letter_backoff?,
        on_unwritten: on_unwritten?,
        breaker: breaker?,
        window: Window {
            records: records?,
            span: span?,
        },
        commit_interval: commit_interval?,
        commit_settlements: commit_settlements?,
        exactly_once: reader.read(&options::DEAD_LETTER_EXACTLY_ONCE, name, value::flag)?,
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

fn order(reader: &mut Reader<'_>, name: &str) -> Option<Order> {
    let order = match reader.given(&options::ORDER, name) {
        Some(_) => reader.read(&options::ORDER, name, value::choice),
        None => Some(default_order(reader, name)),
    };
    let skip_acked = reader.read(&options::SKIP_ACKED, name, value::flag);
    let key_share = reader.read(&options::KEY_SHARE, name, value::float);
    let order = order?;
    if skip_acked == Some(true) && order != "lane" {
        let why = "has a meaning with order = \"lane\" only: with others, what is acked is never \
                   delivered again";
        reader.refuse(&options::SKIP_ACKED, name, why);
    }
    if order != "key" && reader.given(&options::KEY_SHARE, name).is_some() {
        let why = "has a meaning with order = \"key\" only: with others no key takes a share";
        reader.refuse(&options::KEY_SHARE, name, why);
    }
    Some(match order {
        "lane" => Order::Lane {
            skip_acked: skip_acked?,
        },
        "key" => Order::Key {
            share: thousandths(key_share?),
        },
        _ => Order::None,
    })
}

/// A part of 1, to the thousandth.
pub(super) fn thousandths(part: f64) -> u16 {
    // What is read has passed its bounds, and none is far from 1.
    (1..=1000)
        .find(|n| f64::from(*n) >= part.mul_add(1000.0, -0.5))
        .unwrap_or(1000)
}

/// A broadcast keeps the order of the lane unless it is told otherwise.
fn default_order(reader: &Reader<'_>, name: &str) -> &'static str {
    let delivery = reader.given(&options::DELIVERY, name).and_then(Node::text);
    if delivery == Some("broadcast") {
        "lane"
    } else {
        "key"
    }
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

fn backoff_of_dead_letters(reader: &mut Reader<'_>, name: &str) -> Option<Backoff> {
    let of = [
        &options::DEAD_LETTER_BACKOFF_INITIAL,
        &options::DEAD_LETTER_BACKOFF_FACTOR,
        &options::DEAD_LETTER_BACKOFF_MAX,
    ];
    backoff(reader, name, of)
}

fn backoff(reader: &mut Reader<'_>, name: &str, of: [&Spec; 3]) -> Option<Backoff> {
    let [initial, factor, max] = of;
    let first = reader.read(initial, name, value::duration);
    let factor = reader.read(factor, name, value::float);
    let last = reader.read(max, name, value::duration);
    let (first, last) = (first?, last?);
    if first > last {
        let why = format!(
            "must be at least initial, which is {}",
            options::span(first)
        );
        reader.refuse(max, name, why);
        return None;
    }
    Some(Backoff {
        initial: first,
        factor: factor?,
        max: last,
    })
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

fn start(node: &Node, spec: &Spec) -> Result<StartAt, Wrong> {
    let expected = || format!("must be {}", spec.expected());
    if let Some(table) = node.table() {
        let mut entries = table.iter();
        let (Some((key, time)), None) = (entries.next(), entries.next()) else {
            return Err(expected());
        };
        if key != "timestamp" {
            return Err(expected());
        }
        return timestamp(time).map(StartAt::Timestamp).ok_or_else(|| {
            "has a timestamp that is not like \"2026-01-01T00:00:00Z\", in UTC".to_owned()
        });
    }
    match value::text(node, spec)? {
        "earliest" => Ok(StartAt::Earliest),
        "latest" => Ok(StartAt::Latest),
        "fail" => Ok(StartAt::Fail),
        _ => Err(expected()),
    }
}

/// Milliseconds since the Unix epoch.
fn timestamp(node: &Node) -> Option<i64> {
    let text = if let Value::Datetime(text) = &node.value {
        text
    } else {
        node.text()?
    };
    let time = humantime::parse_rfc3339(text.trim()).ok()?;
    let since = time
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_millis()).ok()
}
