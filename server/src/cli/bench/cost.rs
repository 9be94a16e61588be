//! What telemetry costs, as a table or as JSON.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use super::{
    plan::Plan,
    report::{self, Figures, Setup, per_second, ratio, seconds},
};

/// A run below these seconds is hardly scraped.
const SHORT: f64 = 5.0;

/// What the gateway did with more and less telemetry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    #[serde(flatten)]
    setup: Setup,
    /// Records per second through a gateway without telemetry, from the subscriber's
    /// first record until every verdict was applied and Kafka had the commit of the log
    /// ends.
    off_per_s: f64,
    /// The same with default settings and a scrape each second.
    default_per_s: f64,
    /// The second over the first, turn by turn.
    default_ratio: f64,
    /// As the second, with one record in a hundred traced.
    hundredth_per_s: f64,
    /// The third over the first, turn by turn.
    hundredth_ratio: f64,
    /// CPU seconds of those gateways in a run, where the system tells them: a machine that
    /// does something else besides sways them less than the rates.
    off_cpu_seconds: Option<f64>,
    default_cpu_seconds: Option<f64>,
    hundredth_cpu_seconds: Option<f64>,
    runs: Vec<Turn>,
    notes: Vec<String>,
}

/// One turn of all three.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Turn {
    pub(super) off: Figures,
    pub(super) default: Figures,
    pub(super) hundredth: Figures,
}

impl Turn {
    fn default_ratio(&self) -> f64 {
        ratio(self.default.per_s, self.off.per_s)
    }

    fn hundredth_ratio(&self) -> f64 {
        ratio(self.hundredth.per_s, self.off.per_s)
    }
}

impl Cost {
    pub(super) fn new(plan: &Plan, runs: Vec<Turn>) -> Self {
        let median = |figure: fn(&Turn) -> f64| report::median(runs.iter().map(figure).collect());
        let cpu = |figure: fn(&Turn) -> Option<f64>| {
            let all: Option<Vec<f64>> = runs.iter().map(figure).collect();
            all.map(report::median)
        };
        let mut notes = plan.notes.clone();
        let scraped = runs.iter().flat_map(|run| [run.default, run.hundredth]);
        if scraped.into_iter().any(|it| it.committed_seconds < SHORT) {
            notes.push(format!(
                "runs of less than {SHORT} s are hardly scraped: use more --records"
            ));
        }
        Self {
            setup: Setup::new(plan),
            off_per_s: median(|run| run.off.per_s),
            default_per_s: median(|run| run.default.per_s),
            default_ratio: median(Turn::default_ratio),
            hundredth_per_s: median(|run| run.hundredth.per_s),
            hundredth_ratio: median(Turn::hundredth_ratio),
            off_cpu_seconds: cpu(|run| run.off.cpu_seconds),
            default_cpu_seconds: cpu(|run| run.default.cpu_seconds),
            hundredth_cpu_seconds: cpu(|run| run.hundredth.cpu_seconds),
            runs,
            notes,
        }
    }

    /// The report for people.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header([
            "run",
            "off",
            "default",
            "ratio",
            "sample 0.01",
            "ratio",
            "CPU: off",
            "default",
            "sample 0.01",
        ]);
        for (number, run) in (1_u32..).zip(&self.runs) {
            table.add_row([
                number.to_string(),
                per_second(run.off.per_s),
                per_second(run.default.per_s),
                thousandths(run.default_ratio()),
                per_second(run.hundredth.per_s),
                thousandths(run.hundredth_ratio()),
                seconds(run.off.cpu_seconds),
                seconds(run.default.cpu_seconds),
                seconds(run.hundredth.cpu_seconds),
            ]);
        }
        table.add_row([
            "median",
            &per_second(self.off_per_s),
            &per_second(self.default_per_s),
            &thousandths(self.default_ratio),
            &per_second(self.hundredth_per_s),
            &thousandths(self.hundredth_ratio),
            &seconds(self.off_cpu_seconds),
            &seconds(self.default_cpu_seconds),
            &seconds(self.hundredth_cpu_seconds),
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        self.setup.around(&table, &self.notes)
    }
}

/// What is looked for is small.
fn thousandths(ratio: f64) -> String {
    format!("{ratio:.3}")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::plan, *};
    use crate::cli::bench::report::tests::figures;

    fn turn(off: f64, default: f64, hundredth: f64) -> Turn {
        Turn {
            off: figures(off),
            default: figures(default),
            hundredth: figures(hundredth),
        }
    }

    #[test]
    fn report_has_medians_and_ratios_of_the_same_turn() {
        // Each commits one second after its last answer.
        let turns = vec![
            turn(9.0, 19.0, 39.0),
            turn(4.0, 4.0, 9.0),
            turn(7.0, 9.0, 9.0),
        ];
        let cost = Cost::new(&plan(&["--bootstrap", "127.0.0.1:9", "--telemetry"]), turns);
        let json = serde_json::to_value(&cost).unwrap();
        assert_eq!(json["off_per_s"], 125_000.0);
        assert_eq!(json["default_per_s"], 100_000.0);
        assert_eq!(json["hundredth_per_s"], 100_000.0);
        // Of 0.5, 1 and 0.8, and of 0.25, 0.5 and 0.8.
        assert_eq!(json["default_ratio"], 0.8);
        assert_eq!(json["hundredth_ratio"], 0.5);
        assert_eq!(json["hundredth_cpu_seconds"], 1.5);
        for key in ["records", "size", "partitions", "repeat"] {
            assert!(json[key].is_u64(), "{key}");
        }
        assert_eq!(json["runs"].as_array().unwrap().len(), 3);
        let table = cost.table();
        for shown in ["125 k/s", "0.800", "0.500", "sample 0.01"] {
            assert!(table.contains(shown), "{shown} is not in\n{table}");
        }
    }

    #[test]
    fn runs_that_are_hardly_scraped_are_told() {
        let plan = plan(&["--bootstrap", "127.0.0.1:9", "--telemetry"]);
        let told = |turns| Cost::new(&plan, turns).table().contains("hardly scraped");
        assert!(told(vec![turn(9.0, 9.0, 9.0), turn(9.0, 9.0, 1.0)]));
        assert!(!told(vec![turn(1.0, 9.0, 9.0)]));
    }
}
