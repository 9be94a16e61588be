//! The tables `[clusters.NAME.publish]` become [`Publish`]es.

use super::{
    Acks, Publish,
    ad_hoc::INTERNAL,
    ad_hoc_parse::topic_patterns,
    options::{self, Spec},
    parse::properties,
    reader::Reader,
    tree::{Node, Table, Value},
    value::{self, Wrong},
};

/// Options of a subscription that name topics which a pattern must not open.
const RESERVED: [[&str; 2]; 2] = [["dead_letter", "topic"], ["dead_letter", "retry_topic"]];

/// Reads what may be published, cluster by cluster. `None` if something is wrong; that
/// has been reported.
pub(super) fn publish(reader: &mut Reader<'_>, clusters: &[&str]) -> Option<Vec<Publish>> {
    let reserved = reserved(reader.root);
    let read: Vec<Option<Publish>> = clusters
        .iter()
        .filter(|name| is_given(reader.root, name))
        .map(|name| one(reader, name, &reserved))
        .collect();
    read.into_iter().collect()
}

/// Whether records may be published to a cluster at all.
pub(super) fn is_given(root: &Table, cluster: &str) -> bool {
    let clusters = root.get("clusters").and_then(Node::table);
    let cluster = clusters.and_then(|it| it.get(cluster)?.table());
    cluster.is_some_and(|it| it.contains_key("publish"))
}

fn one(reader: &mut Reader<'_>, name: &str, reserved: &[String]) -> Option<Publish> {
    let topics = reader.read(&options::PUBLISH_TOPICS, name, topics);
    let acks = reader.read(&options::PUBLISH_ACKS, name, value::choice);
    let idempotence = reader.read(&options::PUBLISH_IDEMPOTENCE, name, value::flag);
    let most = reader.read(&options::PUBLISH_MAX_RECORD_BYTES, name, value::size);
    let records = reader.read(&options::PUBLISH_MAX_IN_FLIGHT_RECORDS, name, value::small);
    let bytes = reader.read(&options::PUBLISH_MAX_IN_FLIGHT_BYTES, name, value::size);
    let properties = properties(reader, &options::PUBLISH_PRODUCER, name);
    let acks = match acks? {
        "leader" => Acks::Leader,
        "none" => Acks::None,
        _ => Acks::All,
    };
    if idempotence == Some(true) && acks != Acks::All {
        let why = format!(
            "needs acks = \"all\", and acks is \"{}\": a retry is recognised only where every \
             replica has the record; remove one of them",
            acks.word()
        );
        reader.refuse(&options::PUBLISH_IDEMPOTENCE, name, why);
        return None;
    }
    let (most, bytes) = (most?, bytes?);
    if most > bytes {
        let why = format!(
            "must be at most max_in_flight_bytes, which is {}: the record could never be taken",
            options::size(bytes)
        );
        reader.refuse(&options::PUBLISH_MAX_RECORD_BYTES, name, why);
        return None;
    }
    Some(Publish {
        cluster: name.to_owned(),
        topics: topics?,
        reserved: reserved.to_vec(),
        acks,
        idempotence,
        max_record_bytes: most,
        max_in_flight_records: records?,
        max_in_flight_bytes: bytes,
        producer_properties: properties?,
    })
}

fn topics(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    let topics = topic_patterns(node, spec)?;
    if topics.is_empty() {
        return Err("must name at least one topic; without `publish` none is taken".to_owned());
    }
    if topics.iter().any(|topic| topic.contains('?')) {
        return Err("has a pattern with a question mark: only * stands for others".to_owned());
    }
    if topics.iter().any(|topic| topic.starts_with(INTERNAL)) {
        return Err(
            "has a topic of Kafka's own, which begin with two underscores: these are never \
             written to"
                .to_owned(),
        );
    }
    Ok(topics)
}

/// Topics of dead letters and retries, over all subscriptions, also those that openings
/// may name. Read as they are written: whether they are sound is told elsewhere.
pub(super) fn reserved(root: &Table) -> Vec<String> {
    let subscriptions = root.get("subscriptions").and_then(Node::table);
    let ad_hoc = root.get("ad_hoc").and_then(Node::table);
    let template = ad_hoc.and_then(|it| it.get("template"));
    let tables = subscriptions.into_iter().flat_map(Table::values);
    let tables = tables.chain(template).filter_map(Node::table);
    let mut reserved: Vec<String> = tables
        .flat_map(|table| RESERVED.map(|[outer, inner]| table.get(outer)?.table()?.get(inner)))
        .flatten()
        .filter_map(|node| node.text().map(str::to_owned))
        .collect();
    let patterns = ad_hoc.and_then(|it| it.get("dead_letter_topics"));
    if let Some(Value::List(patterns)) = patterns.map(|node| &node.value) {
        let patterns = patterns.iter().filter_map(Node::text);
        reserved.extend(patterns.map(str::to_owned));
    }
    reserved.sort();
    reserved.dedup();
    reserved
}
