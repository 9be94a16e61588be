//! Bounds and values of options in words.

use std::time::Duration;

use super::{GIB, KIB, Kind, MIB, Spec, TIB};

impl Spec {
    /// What a value of the option must be, in words that follow "must be".
    pub(in crate::config) fn expected(&self) -> String {
        match &self.kind {
            Kind::Socket => {
                // Each of the two listeners has its own usual port.
                let port = if self.key.starts_with("admin.") {
                    7655
                } else {
                    7654
                };
                format!("an IP address with port, such as \"127.0.0.1:{port}\"")
            }
            Kind::Flag => "true or false".to_owned(),
            Kind::Integer { min, max, unit } => format!("{min} to {max} {unit}"),
            Kind::Float { min, max } => format!("a number from {min} to {max}"),
            Kind::Duration { min, max } => format!(
                "a duration from {} to {} with its unit, such as {}",
                span(*min),
                span(*max),
                examples(*min, *max)
            ),
            Kind::Size { min, max } => format!(
                "a size from {} to {}, in bytes or with its unit, such as \"64MiB\"",
                size(*min),
                size(*max)
            ),
            Kind::Choice { of, .. } => one_of(of),
            Kind::Text(what) => (*what).to_owned(),
            Kind::Texts(what) => format!("a list of {what}"),
            Kind::Dsn => {
                "an address such as \"kafka://[user:password@]host[:port][,host[:port]...]\""
                    .to_owned()
            }
            Kind::Start => "\"earliest\", \"latest\", \"fail\" or \
                            { timestamp = \"2026-01-01T00:00:00Z\" }"
                .to_owned(),
            Kind::Properties => "a table of librdkafka properties".to_owned(),
        }
    }
}

/// One or two durations that the option takes.
fn examples(min: Duration, max: Duration) -> String {
    const USUAL: [&str; 6] = ["30s", "500ms", "5m", "1h", "1d", "1ms"];
    let fits =
        |text: &&str| humantime::parse_duration(text).is_ok_and(|it| (min..=max).contains(&it));
    let found: Vec<&str> = USUAL.into_iter().filter(fits).take(2).collect();
    if found.is_empty() {
        return one_of(&[&span(max)]);
    }
    one_of(&found)
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A duration as it is written in the file.
pub(in crate::config) fn span(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A size as it is written in the file.
pub(in crate::config) fn size(bytes: u64) -> String {
    [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(
            || format!("{bytes} bytes"),
            |(unit, name)| format!("{}{name}", bytes / unit),
        )
}
