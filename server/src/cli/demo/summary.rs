//! What came of a demo, as a table or as JSON.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use super::{ledger::Counts, watch::Look};

/// What came of a demo.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// Records in the topic.
    pub(super) records: u64,
    /// Broken ones among the demo's own.
    pub(super) poison: u64,
    /// Records that the demo's subscriber acked.
    pub(super) acked: u64,
    /// Failed verdicts it gave: each brought the record again.
    pub(super) retried: u64,
    /// Records it rejected.
    pub(super) rejected: u64,
    /// Records whose dead letters were read back from the topic.
    pub(super) dead_lettered: u64,
    /// Records that other subscribers answered.
    pub(super) answered_by_others: u64,
    lanes: Vec<LaneSummary>,
    /// Every record is acked or a dead letter, and committed.
    pub(super) complete: bool,
    seconds: f64,
    /// Always "in memory": nothing is left of it.
    broker: &'static str,
}

/// A lane as the broker has it.
#[derive(Clone, Copy, Debug, Serialize)]
struct LaneSummary {
    partition: i32,
    committed: Option<i64>,
    log_end: i64,
}

impl Summary {
    /// Sums up. `alone`: nobody else was invited to write orders or to answer them.
    pub(super) fn new(
        (written, poison): (u64, u64),
        counts: Counts,
        dead_lettered: u64,
        look: &Look,
        alone: bool,
        elapsed: Duration,
    ) -> Self {
        let accounted = counts.acked + dead_lettered;
        // The topic is new: its offsets count its records.
        let records: u64 = look.lanes.iter().map(|lane| lane.end.unsigned_abs()).sum();
        let complete = look.all_committed()
            && if alone {
                accounted == records && written == records
            } else {
                accounted <= records && written <= records
            };
        let lanes = look.lanes.iter().map(|lane| LaneSummary {
            partition: lane.partition,
            committed: lane.committed,
            log_end: lane.end,
        });
        Self {
            records,
            poison,
            acked: counts.acked,
            retried: counts.failed,
            rejected: counts.rejected,
            dead_lettered,
            answered_by_others: records.saturating_sub(accounted),
            lanes: lanes.collect(),
            complete,
            seconds: elapsed.as_secs_f64(),
            broker: "in memory",
        }
    }

    /// The summary for people.
    pub(super) fn table(&self) -> String {
        let mut verdicts = Table::new();
        verdicts.load_preset(UTF8_FULL_CONDENSED).set_header([
            "records",
            "acked",
            "retried",
            "rejected",
            "dead letters",
        ]);
        verdicts.add_row(
            [
                self.records,
                self.acked,
                self.retried,
                self.rejected,
                self.dead_lettered,
            ]
            .map(|count| count.to_string()),
        );
        let mut lanes = Table::new();
        lanes.load_preset(UTF8_FULL_CONDENSED).set_header([
            "partition",
            "committed position",
            "log end",
            "",
        ]);
        for lane in &self.lanes {
            let LaneSummary {
                partition,
                committed,
                log_end,
            } = *lane;
            lanes.add_row([
                partition.to_string(),
                committed.map_or_else(|| "none".to_owned(), |position| position.to_string()),
                log_end.to_string(),
                if committed == Some(log_end) || log_end == 0 {
                    "equal"
                } else {
                    "behind"
                }
                .to_owned(),
            ]);
        }
        for table in [&mut verdicts, &mut lanes] {
            for column in table.column_iter_mut() {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{verdicts}\n{lanes}\n{}", self.verdict())
    }

    fn verdict(&self) -> String {
        match (self.complete, self.answered_by_others) {
            (true, 0) => "Every record was acked or is a dead letter, and all is committed.".into(),
            (true, others) => {
                format!("All is committed; other subscribers answered {others} of the records.")
            }
            (false, open) => format!(
                "NOT every record is accounted for: {open} of {} are not, or a committed \
                 position is not the log end.",
                self.records
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::witness::Progress;

    fn look(committed: &[(Option<i64>, i64)]) -> Look {
        let lanes = (0..)
            .zip(committed)
            .map(|(partition, (committed, end))| Progress {
                partition,
                start: 0,
                end: *end,
                committed: *committed,
            });
        Look {
            lanes: lanes.collect(),
            dead_letters: 0,
        }
    }

    fn summary(acked: u64, dead: u64, look: &Look, alone: bool) -> Summary {
        let counts = Counts {
            acked,
            rejected: dead,
            failed: 3,
            repeated: 0,
        };
        Summary::new((10, 1), counts, dead, look, alone, Duration::from_secs(1))
    }

    #[test]
    fn all_acked_or_dead_and_committed_is_complete() {
        let done = look(&[(Some(6), 6), (Some(4), 4), (None, 0)]);
        let summary = summary(9, 1, &done, true);
        assert!(summary.complete, "{summary:?}");
        assert!(
            summary.table().contains("all is committed"),
            "{}",
            summary.table()
        );
    }

    #[test]
    fn record_that_nobody_answers_for_is_not_complete() {
        let done = look(&[(Some(6), 6), (Some(4), 4)]);
        for (acked, dead) in [(8, 1), (9, 0), (10, 1)] {
            let summary = summary(acked, dead, &done, true);
            assert!(!summary.complete, "{summary:?}");
        }
    }

    #[test]
    fn position_that_is_not_the_log_end_is_not_complete() {
        for behind in [Some(3), None, Some(5)] {
            let summary = summary(9, 1, &look(&[(Some(6), 6), (behind, 4)]), true);
            assert!(!summary.complete, "{summary:?}");
            assert!(summary.table().contains("NOT"), "{}", summary.table());
        }
        assert!(!summary(9, 1, &look(&[]), true).complete);
        // The broker holds fewer records than were written.
        assert!(!summary(9, 1, &look(&[(Some(6), 6)]), true).complete);
    }

    #[test]
    fn others_may_answer_where_they_were_invited() {
        let done = look(&[(Some(6), 6), (Some(4), 4)]);
        let summary = summary(5, 1, &done, false);
        assert!(summary.complete, "{summary:?}");
        assert_eq!(summary.answered_by_others, 4);
    }

    #[test]
    fn json_has_what_scripts_need() {
        let json = serde_json::to_value(summary(9, 1, &look(&[(Some(10), 10)]), true)).unwrap();
        assert_eq!(json["records"], 10);
        assert_eq!(json["retried"], 3);
        assert_eq!(json["lanes"][0]["committed"], json["lanes"][0]["log_end"]);
        assert_eq!(json["complete"], true);
    }
}
