//! The reference page of metrics, made from the table of names.

use super::names::{ALL, Kind, Spec};

const HEAD: &str = "\
# Metrics

Every metric of the gateway, made from its table of names (`src/telemetry/metrics/names.rs`); a
test keeps this page true, and `ACKGATE_WRITE_METRICS=1 cargo test -p ackgate --lib
telemetry::metrics` writes it anew.

`/metrics` on the admin address tells all of them in Prometheus' text format, or in OpenMetrics to
whoever asks for it. With `telemetry.otlp.endpoint` they are sent over OTLP under the same names,
and their labels as attributes. Each scrape asks all subscriptions, which answer from integers that
they keep anyway; one that does not answer within two seconds has no series in that scrape, and
`ackgate_metrics_missing_subscriptions` counts it.

How many series there are is up to the configuration: labels are names that stand in it, topics and
partitions of its subscriptions, and words of closed sets. Ad hoc subscriptions are summed for each
cluster as `subscription=\"(ad hoc)\"`, and their lanes as `topic=\"(ad hoc)\",partition=\"other\"`.
Lanes beyond `telemetry.metrics.max_lanes` are summed by topic as `partition=\"other\"`: counts are
added, of ages the greatest is told, and positions not at all.

Counters begin at 0 with the gateway's start, and every value of `kind`, `cause`, `outcome` and
`reason` is there from then on. A lane's series are there as long as this gateway owns it.

What lag means. Records that were received and have not settled count exactly, those held back by
`min_age` among them. What the log has beyond counts by offsets, from where the lane has read to the
end of what it may read: an unfinished transaction is not in it. Offsets may be markers of
transactions, or gaps left by compaction, and nobody can tell before they are read, so until then
the number is an upper bound; once the consumer has found nothing more to read, it is 0. It is never
negative. The log's end is heard once a second. `ackgate_lane_lag_seconds` is the age of the oldest
unsettled record by its timestamp, or for how long the floor has stood where it has none. While
nothing that is unsettled has been fetched, it is for how long there has been something to read: of
a lane that began behind, that is less than the age of its records.

There is no metric of drift between what the gateway has committed and what Kafka has: Kafka's
client only repeats what it has committed itself.
";

/// The page.
#[must_use]
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for (title, begins) in PARTS {
        text.push_str(&format!(
            "\n## {title}\n\n| Name | Kind | Labels | Meaning |\n|---|---|---|---|\n"
        ));
        for spec in ALL.iter().filter(|spec| part(spec) == *begins) {
            text.push_str(&row(spec));
        }
    }
    text
}

/// Titles, and what tells their metrics from others.
const PARTS: &[(&str, Part)] = &[
    ("The gateway", Part::Gateway),
    ("Subscriptions", Part::Subscription),
    ("Lanes", Part::Lane),
    ("Kafka's client", Part::Kafka),
    ("Publishing", Part::Publishing),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Gateway,
    Subscription,
    Lane,
    Kafka,
    Publishing,
}

fn part(spec: &Spec) -> Part {
    if spec.name.starts_with("ackgate_kafka_") {
        Part::Kafka
    } else if spec.labels.contains(&"partition") {
        Part::Lane
    } else if spec.labels.contains(&"subscription") {
        Part::Subscription
    } else if spec.labels.contains(&"cluster") {
        Part::Publishing
    } else {
        Part::Gateway
    }
}

fn row(spec: &Spec) -> String {
    let mut labels = String::new();
    for label in spec.labels {
        let comma = if labels.is_empty() { "" } else { ", " };
        labels.push_str(&format!("{comma}`{label}`"));
    }
    let kind = match spec.kind {
        Kind::Counter | Kind::Gauge => spec.kind.name().to_owned(),
        Kind::Histogram => format!("{} (`_bucket`, `_sum`, `_count`)", spec.kind.name()),
    };
    format!("| `{}` | {kind} | {labels} | {} |\n", spec.name, spec.help)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_page_is_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("metrics.md");
        if std::env::var_os("ACKGATE_WRITE_METRICS").is_some() {
            fs::write(&path, reference()).expect("the page can be written");
        }
        let written = fs::read_to_string(&path).expect("the page is there");
        assert_eq!(
            written,
            reference(),
            "write it anew: ACKGATE_WRITE_METRICS=1 cargo test -p ackgate --lib telemetry::metrics"
        );
    }

    #[test]
    fn every_metric_has_its_row() {
        let page = reference();
        for spec in ALL {
            assert!(
                page.contains(&format!("| `{}` |", spec.name)),
                "{}",
                spec.name
            );
        }
    }
}
