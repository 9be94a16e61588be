//! The table of metrics, as the reference page has it, which a test keeps true to the code.

use std::collections::{BTreeMap, BTreeSet};

use super::super::tree;

/// The reference page.
const PAGE: &str = "server/metrics.md";

/// What a scrape adds to every series.
const TARGET: [&str; 2] = ["instance", "job"];

/// A metric.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) kind: Kind,
    labels: BTreeSet<String>,
}

/// What its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// All metrics, by name.
#[derive(Debug)]
pub(crate) struct Table(BTreeMap<String, Metric>);

/// A series that an expression may ask for.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) kind: Kind,
    pub(crate) labels: BTreeSet<String>,
}

impl Table {
    pub(crate) fn read() -> Self {
        let table = Self::of(&tree::text(PAGE));
        assert!(table.0.len() > 50, "{PAGE} has only {} rows", table.0.len());
        table
    }

    /// From rows ``| `name` | kind | `label`, … | meaning |``.
    pub(crate) fn of(page: &str) -> Self {
        Self(page.lines().filter_map(row).collect())
    }

    /// Whether there is a metric of that name, or a part of one.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name) || self.series(name).is_ok()
    }

    /// What a name in an expression stands for.
    ///
    /// # Errors
    /// There is none, in words.
    pub(crate) fn series(&self, name: &str) -> Result<Series, String> {
        if name == "up" {
            let labels = TARGET.map(str::to_owned).into();
            return Ok(Series {
                kind: Kind::Gauge,
                labels,
            });
        }
        let mut labels: BTreeSet<String> = TARGET.map(str::to_owned).into();
        if let Some(metric) = self.0.get(name) {
            if metric.kind == Kind::Histogram {
                return Err(format!(
                    "{name} is a histogram: name its _bucket, _sum or _count"
                ));
            }
            labels.extend(metric.labels.iter().cloned());
            return Ok(Series {
                kind: metric.kind,
                labels,
            });
        }
        let part = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| {
            let metric = self.0.get(name.strip_suffix(end)?)?;
            (metric.kind == Kind::Histogram).then_some((end, metric))
        });
        let Some((end, metric)) = part else {
            return Err(format!("there is no metric {name}"));
        };
        labels.extend(metric.labels.iter().cloned());
        if end == "_bucket" {
            labels.insert("le".to_owned());
        }
        Ok(Series {
            kind: Kind::Histogram,
            labels,
        })
    }
}

fn row(line: &str) -> Option<(String, Metric)> {
    let mut cells = line.strip_prefix("| `ackgate_")?.split('|').map(str::trim);
    let name = format!("ackgate_{}", cells.next()?.trim_end_matches('`'));
    let kind = match cells.next()?.split(' ').next()? {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        _ => return None,
    };
    let labels = cells.next()?.split('`').skip(1).step_by(2);
    let labels = labels.map(str::to_owned).collect();
    Some((name, Metric { kind, labels }))
}

/// Names of metrics in a text; not those of what is only named alike (`ackgate_proto`).
pub(crate) fn named(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("ackgate_")).collect()
}
