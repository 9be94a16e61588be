//! Which librdkafka properties pass through, and which are refused with what to do
//! instead. The promise of the gateway rests on these: with the client's own commits
//! switched on, records would be passed that nobody answered for.

use super::tree::{Node, Value};

/// What to do with one property.
pub(super) enum Ruling {
    /// It goes to librdkafka.
    Pass(String),
    /// It says what the gateway does anyway.
    Drop,
    /// It is refused; why, in words that follow the value.
    Refuse(String),
}

/// Name without case, quotes, spaces and separators, so that no spelling hides one.
pub(super) fn squashed(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

const COMMITS: &str = "is refused: ackgate commits, and only what a verdict or a confirmed dead \
                       letter answers for";
const CODE: &str = "is refused: a configuration loads no code and runs no command";
const CALLBACK: &str = "is refused: it can be set by a program only";

/// Refused whatever the value, with the reason. Aliases are listed by themselves.
const REFUSED: &[(&str, &str)] = &[
    (
        "bootstrap.servers",
        "is refused: give `address` or `bootstrap` of the cluster",
    ),
    (
        "metadata.broker.list",
        "is refused: give `address` or `bootstrap` of the cluster",
    ),
    ("group.id", "is refused: give `group` of the subscription"),
    (
        "group.instance.id",
        "is refused: one fixed id for several gateways would fence all but one, and static \
         membership is not available yet in this version",
    ),
    (
        "group.protocol",
        "is refused: this version speaks the classic group protocol",
    ),
    (
        "group.protocol.type",
        "is refused: this version speaks the classic group protocol",
    ),
    (
        "group.remote.assignor",
        "is refused: this version speaks the classic group protocol",
    ),
    (
        "partition.assignment.strategy",
        "is refused: lanes move by cooperative-sticky assignment",
    ),
    ("enable.auto.offset.store", COMMITS),
    (
        "auto.commit.interval.ms",
        "is refused: give `commit.interval` of the subscription",
    ),
    ("offset.store.method", COMMITS),
    ("offset.store.path", COMMITS),
    ("offset.store.sync.interval.ms", COMMITS),
    (
        "auto.offset.reset",
        "is refused: give `start` of the subscription",
    ),
    (
        "enable.partition.eof",
        "is refused: ackgate decides which events it takes",
    ),
    (
        "enabled_events",
        "is refused: ackgate decides which events it takes",
    ),
    (
        "statistics.interval.ms",
        "is refused: ackgate sets it for its own metrics",
    ),
    (
        "allow.auto.create.topics",
        "is refused: a topic that does not exist is reported",
    ),
    (
        "transactional.id",
        "is refused: give `dead_letter.transactional_id` of the subscription, with `exactly_once`",
    ),
    (
        "delivery.report.only.error",
        "is refused: a dead letter counts once Kafka has confirmed it",
    ),
    (
        "enable.gapless.guarantee",
        "is refused: a dead letter is tried again until Kafka has it",
    ),
    ("plugin.library.paths", CODE),
    ("interceptors", CODE),
    ("sasl.kerberos.kinit.cmd", CODE),
    ("ssl.engine.location", CODE),
    ("ssl.engine.id", CODE),
    ("ssl.providers", CODE),
    ("ssl_engine_callback_data", CALLBACK),
    (
        "ssl_key",
        "is refused: give `ssl.key.pem` or `ssl.key.location`",
    ),
    (
        "ssl_certificate",
        "is refused: give `ssl.certificate.pem` or `ssl.certificate.location`",
    ),
    (
        "ssl_ca",
        "is refused: give `ssl.ca.pem` or `ssl.ca.location`",
    ),
    ("opaque", CALLBACK),
    ("default_topic_conf", CALLBACK),
    ("log.queue", CALLBACK),
    ("internal.termination.signal", CALLBACK),
    ("builtin.features", CALLBACK),
];

const AUTO_COMMIT: [&str; 2] = ["enableautocommit", "autocommitenable"];
const IDEMPOTENCE: &str = "enableidempotence";
const ACKS: [&str; 2] = ["acks", "requestrequiredacks"];
const DELIVERY_TIMEOUT: [&str; 2] = ["deliverytimeoutms", "messagetimeoutms"];

/// Whether a name's value may stand in a message: the names ruled on here say
/// nothing secret, any other might be a misspelt password.
pub(super) fn may_be_shown(name: &str) -> bool {
    let name = squashed(name);
    REFUSED.iter().any(|(refused, _)| squashed(refused) == name)
        || [IDEMPOTENCE]
            .iter()
            .chain(&AUTO_COMMIT)
            .chain(&ACKS)
            .chain(&DELIVERY_TIMEOUT)
            .any(|ruled| *ruled == name)
}

/// Rules on one property of a producer for published records, whose acks and
/// idempotence are options.
pub(super) fn rule_for_publishing(name: &str, node: &Node) -> Ruling {
    let squashed = squashed(name);
    if squashed == IDEMPOTENCE {
        return Ruling::Refuse("is refused: give `idempotence` of `publish`".to_owned());
    }
    if ACKS.contains(&squashed.as_str()) {
        return Ruling::Refuse("is refused: give `acks` of `publish`".to_owned());
    }
    rule(name, node)
}

/// Rules on one property.
pub(super) fn rule(name: &str, node: &Node) -> Ruling {
    let squashed_name = squashed(name);
    let is = |ruled: &[&str]| ruled.contains(&squashed_name.as_str());
    if is(&AUTO_COMMIT) {
        return if says_false(node) {
            Ruling::Drop
        } else {
            Ruling::Refuse(format!("{COMMITS}; remove it or set it to false"))
        };
    }
    if let Some((_, why)) = REFUSED
        .iter()
        .find(|(refused, _)| squashed(refused) == squashed_name)
    {
        return Ruling::Refuse((*why).to_owned());
    }
    if squashed_name.ends_with("cb") && name.contains('_') {
        return Ruling::Refuse(CALLBACK.to_owned());
    }
    if squashed_name.starts_with("testmock") {
        return Ruling::Refuse("is refused: it would replace Kafka by an imitation".to_owned());
    }
    let Some(value) = scalar(node) else {
        return Ruling::Refuse("must be a string, an integer, a float or a boolean".to_owned());
    };
    let word = value.trim().to_ascii_lowercase();
    if is(&[IDEMPOTENCE]) && !matches!(word.as_str(), "true" | "t" | "1") {
        return Ruling::Refuse("must be true: a retry would write a dead letter twice".to_owned());
    }
    if is(&ACKS) && !matches!(word.as_str(), "all" | "-1") {
        return Ruling::Refuse(
            "must be all: a dead letter counts once every replica in sync has it".to_owned(),
        );
    }
    if is(&DELIVERY_TIMEOUT) && !word.parse().is_ok_and(|millis: u64| millis > 0) {
        return Ruling::Refuse(
            "must be a number of milliseconds above 0: 0 would wait for ever".to_owned(),
        );
    }
    if value.contains('\0') {
        return Ruling::Refuse("must be text without zero characters".to_owned());
    }
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_';
    if name.is_empty() || !name.chars().all(legal) {
        return Ruling::Refuse(
            "must be a property's name as librdkafka has it: lower case, with dots".to_owned(),
        );
    }
    Ruling::Pass(value)
}

/// A value as librdkafka takes it.
pub(super) fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) | Value::Datetime(text) => Some(text.clone()),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Float(float) => Some(float.to_string()),
        Value::Flag(flag) => Some(flag.to_string()),
        Value::List(_) | Value::Table(_) | Value::Unreadable => None,
    }
}

/// Only the word itself counts: what else librdkafka might take for false today it
/// might not take for false tomorrow.
fn says_false(node: &Node) -> bool {
    match &node.value {
        Value::Flag(flag) => !flag,
        Value::Text(text) => text
            .trim()
            .trim_matches(['"', '\''])
            .trim()
            .eq_ignore_ascii_case("false"),
        Value::Integer(_)
        | Value::Float(_)
        | Value::Datetime(_)
        | Value::List(_)
        | Value::Table(_)
        | Value::Unreadable => false,
    }
}
