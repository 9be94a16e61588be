//! What exactly-once dead letters ask of the other options.

use super::super::{
    options::{self, Spec},
    properties::{scalar, squashed},
    reader::Reader,
    tree::Node,
};

/// Exactly once needs a dead-letter topic, a consumer that waits for open transactions,
/// and a producer whose transactions are the gateway's own.
pub(in crate::config) fn exactly_once(reader: &mut Reader<'_>, name: &str, is_on: bool) {
    if !is_on {
        for spec in [
            &options::DEAD_LETTER_TRANSACTION_TIMEOUT,
            &options::DEAD_LETTER_TRANSACTIONAL_ID,
        ] {
            if reader.given(spec, name).is_some() {
                let why = "has no effect without dead_letter.exactly_once = true: set that, or \
                           remove it";
                reader.refuse(spec, name, why);
            }
        }
        return;
    }
    let spec = &options::DEAD_LETTER_EXACTLY_ONCE;
    if reader.given(&options::DEAD_LETTER_TOPIC, name).is_none() {
        let why = "needs dead_letter.topic: there is nothing to store together with commits";
        reader.refuse(spec, name, why);
    }
    let on_failure = reader.given(&options::DEAD_LETTER_ON_FAILURE, name);
    if let Some("park" | "discard") = on_failure.and_then(Node::text) {
        let why = "contradicts dead_letter.exactly_once: a record settles with its dead letter or \
                   not at all; use \"block\"";
        reader.refuse(&options::DEAD_LETTER_ON_FAILURE, name, why);
    }
    let cluster = reader
        .given(&options::SUBSCRIPTION_CLUSTER, name)
        .and_then(Node::text)
        .unwrap_or_default();
    let isolation = [
        property(
            reader,
            &options::CONSUMER_PROPERTIES,
            name,
            "isolation.level",
        ),
        property(
            reader,
            &options::CLUSTER_PROPERTIES,
            cluster,
            "isolation.level",
        ),
    ];
    let isolation = isolation.into_iter().flatten().next();
    if isolation.is_some_and(|level| level.trim() != "read_committed") {
        let why = "needs the consumer's \"isolation.level\" to be read_committed, the default: \
                   else a lane could begin at a position that a transaction is about to replace, \
                   and its dead letters would be written twice";
        reader.refuse(spec, name, why);
    }
    let own = "transaction.timeout.ms";
    if property(reader, &options::DEAD_LETTER_PRODUCER, name, own).is_some() {
        let why = format!(
            "holds \"{own}\", which is the gateway's own with exactly_once: use \
             dead_letter.transaction_timeout"
        );
        reader.refuse(&options::DEAD_LETTER_PRODUCER, name, why);
    }
}

/// The value of a property in one of the tables of properties.
fn property(reader: &Reader<'_>, spec: &Spec, name: &str, property: &str) -> Option<String> {
    let mut given = reader.given(spec, name)?.table()?.iter();
    let (_, node) = given.find(|(given, _)| squashed(given) == squashed(property))?;
    scalar(node)
}
