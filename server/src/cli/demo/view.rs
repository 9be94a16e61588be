//! The live view: bars on a terminal, else a line each second.

use std::{
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{ledger::Counts, watch::Look};

/// Between two lines.
const LINE: Duration = Duration::from_secs(1);

/// What is shown.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub(super) written: u64,
    pub(super) counts: Counts,
    pub(super) look: Look,
}

/// Where it is shown.
#[derive(Debug)]
pub(super) enum View {
    /// A terminal.
    Bars {
        /// Keeps the lines together.
        all: MultiProgress,
        /// Verdicts.
        verdicts: ProgressBar,
        /// One for each lane, made when it is first seen.
        lanes: Vec<ProgressBar>,
    },
    /// Anything else.
    Lines {
        /// When the last one was written.
        last: Option<Instant>,
    },
}

impl View {
    /// A view on standard error.
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { last: None };
        }
        let all = MultiProgress::new();
        let style = ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let verdicts = all.add(ProgressBar::new_spinner().with_style(style));
        verdicts.enable_steady_tick(Duration::from_millis(200));
        Self::Bars {
            all,
            verdicts,
            lanes: Vec::new(),
        }
    }

    /// Shows how it stands; the `end` is never left out.
    pub(super) fn show(&mut self, now: &Now, end: bool) {
        match self {
            Self::Bars {
                all,
                verdicts,
                lanes,
            } => {
                verdicts.set_message(in_words(now));
                for lane in lanes.len()..now.look.lanes.len() {
                    lanes.push(all.add(bar(lane)));
                }
                for (bar, lane) in lanes.iter().zip(&now.look.lanes) {
                    bar.set_length(lane.end.unsigned_abs());
                    bar.set_position(lane.committed.unwrap_or_default().unsigned_abs());
                }
            }
            Self::Lines { last } => {
                if end || last.is_none_or(|last| last.elapsed() >= LINE) {
                    *last = Some(Instant::now());
                    say(&line(now));
                }
            }
        }
    }

    /// Takes the bars away.
    pub(super) fn clear(&self) {
        if let Self::Bars {
            all,
            verdicts,
            lanes,
        } = self
        {
            for bar in lanes.iter().chain([verdicts]) {
                bar.finish_and_clear();
            }
            // A terminal that is gone needs no clearing.
            all.clear().unwrap_or_default();
        }
    }
}

/// Says something to whoever watches; it is no failure if nobody does.
pub(super) fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").unwrap_or_default();
}

fn bar(lane: usize) -> ProgressBar {
    let template = "  partition {prefix}  {bar:40} committed {human_pos} of {human_len}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0)
        .with_style(style)
        .with_prefix(lane.to_string())
}

fn in_words(now: &Now) -> String {
    let Counts {
        acked,
        rejected,
        failed,
        ..
    } = now.counts;
    format!(
        "{} written, {acked} acked, {failed} failed and retried, {rejected} rejected, {} dead \
         letters",
        now.written, now.look.dead_letters
    )
}

fn line(now: &Now) -> String {
    let lanes: Vec<String> = now
        .look
        .lanes
        .iter()
        .map(|lane| format!("{}/{}", lane.committed.unwrap_or_default(), lane.end))
        .collect();
    format!("{}; committed {}", in_words(now), lanes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::witness::Progress;

    #[test]
    fn line_tells_verdicts_and_positions() {
        let lane = |partition, committed| Progress {
            partition,
            start: 0,
            end: 9,
            committed,
        };
        let now = Now {
            written: 18,
            counts: Counts {
                acked: 7,
                rejected: 2,
                failed: 1,
                repeated: 0,
            },
            look: Look {
                lanes: vec![lane(0, Some(8)), lane(1, None)],
                dead_letters: 2,
            },
        };
        assert_eq!(
            line(&now),
            "18 written, 7 acked, 1 failed and retried, 2 rejected, 2 dead letters; \
             committed 8/9 0/9"
        );
    }
}
