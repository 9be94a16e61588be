//! The figures of a benchmark, as a table or as JSON.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use super::{cost::Cost, job::Measured, plan::Plan};

/// What a benchmark came to.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Report(Report),
    Cost(Cost),
}

impl Outcome {
    /// What it came to, for people.
    pub(super) fn table(&self) -> String {
        match self {
            Self::Report(report) => report.table(),
            Self::Cost(cost) => cost.table(),
        }
    }
}

/// What was measured with.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Setup {
    records: u64,
    /// Bytes of each value.
    size: u32,
    partitions: u16,
    repeat: u32,
    credit: u32,
    embedded_broker: bool,
}

impl Setup {
    pub(super) const fn new(plan: &Plan) -> Self {
        Self {
            records: plan.records,
            size: plan.size,
            partitions: plan.partitions,
            repeat: plan.repeat,
            credit: plan.credit,
            embedded_broker: plan.embedded,
        }
    }

    /// A table with what belongs above and below it.
    pub(super) fn around(&self, table: &Table, notes: &[String]) -> String {
        let Self {
            records,
            size,
            partitions,
            ..
        } = self;
        let mut text =
            format!("{records} records of {size} bytes, {partitions} partitions\n{table}");
        for note in notes {
            text.push_str("\nNote: ");
            text.push_str(note);
        }
        text
    }
}

/// The gateway against a direct consumer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    setup: Setup,
    /// Records per second of the direct consumer, from its first record until Kafka
    /// had the commit of the log ends.
    direct_per_s: f64,
    /// Records per second through the gateway, from the subscriber's first record
    /// until every verdict was applied and Kafka had the commit of the log ends.
    gateway_per_s: f64,
    /// The second over the first.
    ratio: f64,
    /// The same without the wait for the last commits.
    direct_answered_per_s: f64,
    gateway_answered_per_s: f64,
    runs: Vec<Run>,
    notes: Vec<String>,
}

/// One turn of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) direct: Figures,
    pub(super) gateway: Figures,
}

/// One party's figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) records: u64,
    pub(super) per_s: f64,
    pub(super) answered_per_s: f64,
    /// From the first record until the last was answered.
    pub(super) seconds: f64,
    /// From the first record until Kafka had the commits.
    pub(super) committed_seconds: f64,
    /// Of the process that reads from Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_seconds: Option<f64>,
    /// Of the gateway's subscriber.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subscriber_cpu_seconds: Option<f64>,
    /// How often the gateway's metrics were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scrapes: Option<u32>,
}

impl Figures {
    /// Figures of a party; `committed_seconds` where it could not tell by itself.
    pub(super) fn new(measured: &Measured, committed_seconds: f64) -> Self {
        let Measured {
            records, seconds, ..
        } = *measured;
        let committed_seconds = measured.committed_seconds.unwrap_or(committed_seconds);
        Self {
            records,
            per_s: rate(records, committed_seconds),
            answered_per_s: rate(records, seconds),
            seconds,
            committed_seconds,
            cpu_seconds: measured.cpu_seconds,
            subscriber_cpu_seconds: None,
            scrapes: None,
        }
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, runs: Vec<Run>) -> Self {
        let median = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        let direct_per_s = median(|run| run.direct.per_s);
        let gateway_per_s = median(|run| run.gateway.per_s);
        Self {
            setup: Setup::new(plan),
            direct_per_s,
            gateway_per_s,
            ratio: ratio(gateway_per_s, direct_per_s),
            direct_answered_per_s: median(|run| run.direct.answered_per_s),
            gateway_answered_per_s: median(|run| run.gateway.answered_per_s),
            runs,
            notes: plan.notes.clone(),
        }
    }

    /// The report for people.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header([
            "run",
            "direct",
            "gateway",
            "ratio",
            "answered: direct",
            "gateway",
            "CPU: direct",
            "gateway",
            "subscriber",
        ]);
        for (number, run) in (1_u32..).zip(&self.runs) {
            let Run { direct, gateway } = run;
            table.add_row([
                number.to_string(),
                per_second(direct.per_s),
                per_second(gateway.per_s),
                format!("{:.2}", ratio(gateway.per_s, direct.per_s)),
                format!("{:.2} s", direct.seconds),
                format!("{:.2} s", gateway.seconds),
                seconds(direct.cpu_seconds),
                seconds(gateway.cpu_seconds),
                seconds(gateway.subscriber_cpu_seconds),
            ]);
        }
        table.add_row([
            "median",
            &per_second(self.direct_per_s),
            &per_second(self.gateway_per_s),
            &format!("{:.2}", self.ratio),
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.setup.around(&table, &self.notes)
    }
}

/// How much of `whole` one rate is; 0 of nothing.
pub(super) fn ratio(rate: f64, whole: f64) -> f64 {
    if whole > 0.0 { rate / whole } else { 0.0 }
}

fn rate(records: u64, seconds: f64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a rate is shown with three digits"
    )]
    let records = records as f64;
    // All in one batch: as fast as can be told.
    records / seconds.max(1e-6)
}

pub(super) fn per_second(rate: f64) -> String {
    if rate >= 1e6 {
        format!("{:.2} M/s", rate / 1e6)
    } else {
        format!("{:.0} k/s", rate / 1e3)
    }
}

pub(super) fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("{seconds:.1} s"))
}

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = figures.get(middle).copied().unwrap_or_default();
    let lower = figures
        .get(middle.saturating_sub(1))
        .copied()
        .unwrap_or_default();
    if figures.len().is_multiple_of(2) {
        f64::midpoint(lower, upper)
    } else {
        upper
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A party that took `seconds` for a million records, and committed 1 s later.
    pub(in crate::cli::bench) fn figures(seconds: f64) -> Figures {
        let measured = Measured {
            records: 1_000_000,
            bytes: 1,
            seconds,
            committed_seconds: None,
            cpu_seconds: Some(1.5),
        };
        Figures::new(&measured, seconds + 1.0)
    }

    #[test]
    fn median_is_the_middle_or_between_the_two_middles() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!((median(vec![7.0]) - 7.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }

    #[test]
    fn rates_are_records_by_time() {
        let figures = figures(2.0);
        assert!((figures.answered_per_s - 500_000.0).abs() < 1.0);
        assert!((figures.per_s - 333_333.3).abs() < 1.0);
    }
}
