//! The names of all fields of the log: one name for one thing, and one form for it.
//!
//! Invariant: no field holds a record's value, key or headers, a token or a password. A test
//! reads the sources and finds any field that is not here.

use std::fmt::Write as _;

/// The form of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text. Control characters are escaped.
    Text,
    /// A number. Names of durations end in `_ms`, those of sizes in `bytes`.
    Number,
    /// `true` or `false`.
    Flag,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its form.
    pub form: Form,
    /// What it tells.
    pub about: &'static str,
}

/// Those that every line has.
pub const EVERY: [Field; 4] = [
    text("timestamp", "when, as RFC 3339 in UTC, to the microsecond"),
    text("level", "`ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`"),
    text(
        "target",
        "the part of the program, as `log.filter` names it",
    ),
    text(
        "message",
        "what happened; always the same words for the same thing",
    ),
];

/// All others.
pub const FIELDS: &[Field] = &[
    // Where.
    text(
        "subscription",
        "the subscription, by its name; `ad-hoc/CLUSTER/GROUP` for one that is not in the file",
    ),
    text("cluster", "the cluster, by its name in the configuration"),
    text("group", "the consumer group"),
    text("topic", "the topic; `*` for all of the subscription"),
    number("partition", "the partition of that topic"),
    number("offset", "the record"),
    number("first_offset", "the first of a range of records"),
    number("last_offset", "the last of it, itself included"),
    number("position", "the offset at which reading goes on"),
    number("head", "the end of the lane's log, as last heard"),
    number("oldest", "the oldest offset that the log still has"),
    number(
        "epoch",
        "the lane's history, counted from 1: a new one begins with a reset",
    ),
    text(
        "dead_letter_topic",
        "the topic that a dead letter was written to",
    ),
    // Who.
    text(
        "subscriber",
        "the subscriber, by the name that it gave itself",
    ),
    number("session", "one stream or pull session of a subscriber"),
    text("principal", "who calls, as the token's line names it"),
    text("peer", "the other end of a connection, as address and port"),
    text("address", "the address that is listened on"),
    text(
        "endpoint",
        "the receiver that is sent to, as `telemetry.otlp.endpoint` says",
    ),
    text("pages", "where the pages for operators are"),
    text("path", "the method that was called"),
    text(
        "client",
        "which client of Kafka: `consumer`, `producer`, `reader`, `probe`",
    ),
    text(
        "facility",
        "librdkafka's own word for what its line is about",
    ),
    text(
        "thread",
        "librdkafka's thread, which mostly names the broker",
    ),
    // What and why.
    text("error", "what Kafka, a library or the system said"),
    text("detail", "why, in the gateway's words"),
    text("reason", "why, as one of a few words"),
    text("cause", "why a record was given up"),
    text("outcome", "how a session or a stream ended"),
    text("check", "`content.check`"),
    text("on_failure", "`content.on_failure`"),
    text("action", "what an operator asked for"),
    text("before", "what a lane was before that"),
    text("after", "what it is now"),
    text("signal", "the signal that was received"),
    text("point", "a fail point; in builds for tests only"),
    text("place", "the line of the sources where something panicked"),
    text(
        "backtrace",
        "how it came there, where `RUST_BACKTRACE` asks for it",
    ),
    text(
        "property",
        "a property of the client library, without its value",
    ),
    text("part", "a part of the configuration"),
    text("settings", "its settings, secrets masked"),
    text("config", "the configuration file"),
    text("version", "the gateway's version"),
    text("tls", "`on` or `off`"),
    text("client_certificates", "`required` or `not required`"),
    flag("resumes", "whether a subscriber goes on with what it had"),
    flag("lost", "whether lanes were lost instead of given back"),
    // How much.
    number("count", "how often, since this began: see episodes above"),
    number("total", "how many since the subscription's driver started"),
    number("tries", "writes that were tried"),
    number("refusals", "refusals so far"),
    number("lanes", "lanes"),
    number("partitions", "partitions of a new topic"),
    number("subscriptions", "subscriptions in the configuration"),
    number(
        "spans",
        "spans that a collector did not get, since that began; at the end, those that it may not have got",
    ),
    number("points", "points of metrics that a receiver refused"),
    number("streams", "streams"),
    number("dead_letters", "dead letters that wait or are written"),
    number("events", "events that wait"),
    number(
        "offsets",
        "offsets in a range, whether or not there is a record at each",
    ),
    number("days_left", "days until the certificate ends"),
    number("tokens", "tokens in `listen.tokens_file`"),
    number("descriptors", "file descriptors that the process may have"),
    number("wanted", "how many it may need"),
    number("limit", "the limit that was reached"),
    number("bytes", "a size"),
    number("limit_bytes", "the limit of that size"),
    number("retained_bytes", "bytes of records that a lane holds"),
    number(
        "granted_bytes",
        "bytes that were asked for and have not come",
    ),
    number("used_bytes", "what is used of the gateway's memory budget"),
    number("memory_bytes", "that budget"),
    number("limit_ms", "the longest that something may take"),
    number("retry_ms", "until the next try"),
    number("grace_ms", "how long a lost subscriber is waited for"),
    number("lease_ms", "how long a lease lasts"),
    number(
        "linger_ms",
        "how long the group is kept without subscribers",
    ),
    number("silent_ms", "since the group's coordinator last answered"),
    number("age_ms", "how long a lane has made no progress"),
    // What became of records without a subscriber's doing, since the start.
    number("filtered", "settled because the filter said no"),
    number(
        "unwanted",
        "passed over for one subscriber by its own filter",
    ),
    number(
        "filter_failures",
        "handed out although the filter could say nothing",
    ),
    number("expired", "too old before they were handed out"),
    number("content_rejected", "given up for their content"),
    number("content_skipped", "settled for their content"),
    number("content_delivered", "handed out in spite of their content"),
    number(
        "parked",
        "set aside, their dead letters could not be written",
    ),
    number("discarded", "settled without a dead letter"),
    number(
        "vanished",
        "offsets that the log lost before they were settled",
    ),
];

const fn text(name: &'static str, about: &'static str) -> Field {
    let form = Form::Text;
    Field { name, form, about }
}

const fn number(name: &'static str, about: &'static str) -> Field {
    let form = Form::Number;
    Field { name, form, about }
}

const fn flag(name: &'static str, about: &'static str) -> Field {
    let form = Form::Flag;
    Field { name, form, about }
}

/// All fields as a Markdown table.
#[must_use]
pub fn reference() -> String {
    let mut table = "| Field | Form | What it tells |\n|---|---|---|\n".to_owned();
    for Field { name, form, about } in EVERY.iter().chain(FIELDS) {
        let form = match form {
            Form::Text => "text",
            Form::Number => "number",
            Form::Flag => "flag",
        };
        // A string takes everything.
        let _fits = writeln!(table, "| `{name}` | {form} | {about} |");
    }
    table
}

#[cfg(test)]
mod tests;
