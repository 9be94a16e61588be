//! `ackgate dlq list`.

use std::{ops::ControlFlow, process::ExitCode};

use anyhow::Result;
use serde::Serialize;

use super::{
    letter::Letter,
    place::{From, Place},
    print::{self, Line},
    reading::{self, INTERRUPTED, Reading, Stop},
    select::Select,
    summary::{self, Counted, Summary},
};
use crate::cli::output;

/// Rows of one table: the widths of its columns follow from all of them.
const PAGE: usize = 1000;

/// Arguments of `ackgate dlq list`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Records are listed in the order of partitions and offsets, up to where the topic \
                  ended when the command began. No group is joined and nothing is committed.\n\n\
                  With --json each dead letter is a line; records that no gateway wrote have \
                  \"dead_letter\": null.\n\n\
                  Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted."
)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    /// The most dead letters to list; 0: all of them.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Count them by subscription, cause, code and reason instead.
    #[arg(long, conflicts_with = "limit")]
    summary: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    // Last: its heading would be that of what comes after it.
    #[command(flatten)]
    select: Select,
}

/// What was found beside what is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Found {
    /// Selected.
    letters: u64,
    /// Dead letters of other groups.
    of_others: u64,
    /// Records that no gateway wrote.
    foreign: u64,
    /// There may be more behind the limit.
    limited: bool,
    /// Ctrl-C came first.
    interrupted: bool,
}

/// The counts as JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    topic: &'a str,
    kinds: Vec<Counted>,
    #[serde(flatten)]
    found: Found,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let place = args.from.place()?;
    let interrupted = reading::blocking(move |stop| list(&args, &place, &stop)).await?;
    Ok(if interrupted {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

fn list(args: &Args, place: &Place, stop: &Stop) -> Result<bool> {
    let mut reading = Reading::new(&place.cluster, &place.topic, "reading", stop)?;
    let bar = reading.bar().clone();
    let mut found = Found::default();
    let mut summary = Summary::default();
    let mut page = Page::default();
    let mut ended = Ok(true);
    let limit = if args.limit == 0 || args.summary {
        u64::MAX
    } else {
        args.limit
    };
    let complete = reading.all(|partition, record| {
        let letter = Letter::new(partition, record);
        if !found.counts(&letter, place, &args.select) {
            return ControlFlow::Continue(());
        }
        let printed = match (&letter.told, args.summary) {
            (Some(told), true) => {
                summary.add(&letter, told);
                Ok(true)
            }
            (None, true) => Ok(true),
            (_, false) if args.json => bar.suspend(|| line(place, &letter)),
            (_, false) => page.add(&letter, || bar.clone()),
        };
        // `ackgate dlq list … | head` has seen enough.
        if !matches!(printed, Ok(true)) {
            ended = printed;
            return ControlFlow::Break(());
        }
        if found.letters + found.foreign >= limit {
            found.limited = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    drop(reading);
    if !ended? {
        return Ok(false);
    }
    found.interrupted = !complete && !found.limited;
    if args.summary {
        counted(args.json, place, summary, found)?;
    } else if !args.json {
        page.print()?;
    }
    if !args.json {
        output::complain(&found.words(args));
    }
    Ok(found.interrupted)
}

/// Whether there is still a reader.
fn line(place: &Place, letter: &Letter) -> Result<bool> {
    let line = serde_json::to_string(&Line::new(&place.topic, letter))?;
    Ok(output::heard(&line)?)
}

fn counted(json: bool, place: &Place, summary: Summary, found: Found) -> Result<()> {
    let kinds = summary.counted();
    if json {
        return output::json(&Report {
            topic: &place.topic,
            kinds,
            found,
        });
    }
    if !kinds.is_empty() {
        let rows = kinds.iter().map(Counted::row).collect();
        output::line(&output::table(summary::HEAD, rows))?;
    }
    Ok(())
}

impl Found {
    /// Whether the record is listed.
    fn counts(&mut self, letter: &Letter, place: &Place, select: &Select) -> bool {
        let Some(told) = &letter.told else {
            self.foreign += u64::from(select.is_open());
            return select.is_open();
        };
        if place
            .group
            .as_ref()
            .is_some_and(|group| *group != told.group)
        {
            self.of_others += 1;
            return false;
        }
        let taken = select.takes(letter, told);
        self.letters += u64::from(taken);
        taken
    }

    fn words(&self, args: &Args) -> String {
        let mut text = match self.letters {
            1 => "1 dead letter".to_owned(),
            count => format!("{count} dead letters"),
        };
        for (count, what) in [
            (self.foreign, "not from a gateway"),
            (self.of_others, "of other groups left out"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        if self.limited {
            text.push_str(&format!(
                "; listed up to --limit {}: there may be more, see --summary",
                args.limit
            ));
        }
        if self.interrupted {
            text.push_str("; interrupted before the end of the topic");
        }
        text
    }
}

/// Rows that are printed together.
#[derive(Debug, Default)]
struct Page {
    rows: Vec<[String; 8]>,
}

impl Page {
    /// Whether there is still a reader.
    fn add(
        &mut self,
        letter: &Letter,
        bar: impl FnOnce() -> indicatif::ProgressBar,
    ) -> Result<bool> {
        self.rows.push(print::row(letter));
        if self.rows.len() >= PAGE {
            return bar().suspend(|| self.print());
        }
        Ok(true)
    }

    /// Whether there is still a reader.
    fn print(&mut self) -> Result<bool> {
        if self.rows.is_empty() {
            return Ok(true);
        }
        let rows = std::mem::take(&mut self.rows);
        Ok(output::heard(&output::table(print::HEAD, rows))?)
    }
}
