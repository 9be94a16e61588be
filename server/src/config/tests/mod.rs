//! Rules of the configuration, each by an example that breaks it.

use std::path::Path;

use super::{Config, Problem, parse};

mod access;
mod ad_hoc;
mod addresses;
mod copying;
mod documents;
mod environment;
mod exactly_once;
mod intake;
mod limits;
mod otlp;
mod properties;
mod publish;
mod rules;
mod secrets;
mod topics;
mod unwritten;
mod wishes;

/// The least that works.
const LEAST: &str = r#"
[clusters.main]
address = "kafka://broker"
[subscriptions.orders]
cluster = "main"
topics = ["orders"]
group = "shipping"
start = "earliest"
order = "none"
dead_letter.topic = "orders.dead"
"#;

fn load_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<Problem>> {
    let environment = environment
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    parse(text, Path::new("/etc/ackgate.toml"), environment)
        .map_err(|problems| problems.list().to_vec())
}

fn messages(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    load_with(text, environment)
        .expect_err("it should be refused")
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// [`LEAST`] with lines added to its subscription.
fn orders(lines: &str) -> String {
    format!("{LEAST}{lines}\n")
}

/// [`LEAST`] with one text in place of another.
fn with(old: &str, new: &str) -> String {
    assert!(LEAST.contains(old), "{old} is in the text");
    LEAST.replacen(old, new, 1)
}
