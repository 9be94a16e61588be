//! `ackgate dlq redrive`: puts dead letters back, into a retry topic.
//!
//! What has been put back is known from the retry topic alone: each record there names
//! the dead letter that it was made from. So a run that was ended in any way is gone on
//! with by another one, and nothing is remembered anywhere else. Records are written in
//! transactions of a name that belongs to one run at a time.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use serde::Serialize;

use super::{
    place::{From, Place},
    reading::{self, INTERRUPTED},
    select::Select,
    time,
};
use crate::cli::{FAILED, Usage, output};

mod again;
mod back;
mod pace;
mod run;
#[cfg(test)]
mod tests;

use pace::Rate;

/// The longest delay: what waits holds its lane.
const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);

/// Dead letters that are listed as not put back; all of them are counted.
const LISTED: usize = 1000;

/// Arguments of `ackgate dlq redrive`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Dead letters are put back as the records they were, with headers that begin with \
                  `ackgate.redrive.`, in the order of each lane. The dead-letter topic stays as it \
                  is. Run again, also after kill -9, it goes on: what is in the retry topic \
                  already is left out. A second redrive into the same topic ends the first one.\n\n\
                  Exit codes: 0 everything selected is in the retry topic, but for what cannot be \
                  put back and is counted; 1 failed; 2 wrong usage or configuration; 130 \
                  interrupted, what is counted is in the retry topic."
)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    /// The retry topic, where the configuration does not name it.
    #[arg(long, value_name = "TOPIC")]
    retry_topic: Option<String>,
    /// The most dead letters to put back in this run.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// The most records a second, as 100 or 100/s.
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
    /// Each record is handed out this long after it was put back, as 10m; at most 30 days.
    #[arg(long, value_name = "DURATION", value_parser = delay, conflicts_with = "not_before")]
    delay: Option<Duration>,
    /// No record is handed out before this time, as 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time::point)]
    not_before: Option<i64>,
    /// Put back also what was put back before.
    #[arg(long)]
    again: bool,
    /// Tell what would be put back, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    // Last: its heading would be that of what comes after it.
    #[command(flatten)]
    select: Select,
}

/// What became of the dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Summary {
    dead_letter_topic: String,
    retry_topic: String,
    dry_run: bool,
    /// In the retry topic, confirmed; with `dry_run` what would be.
    put_back: u64,
    /// By an earlier run.
    put_back_before: u64,
    /// Selected, and first delivered from the very topic that they were to go to.
    its_source: u64,
    /// Selected, and not whole in the dead-letter topic.
    incomplete: u64,
    /// Selected, and so old that the retry topic would not keep them.
    too_old: u64,
    /// Selected, and refused by the retry topic.
    refused: u64,
    /// Dead letters that were not selected.
    not_selected: u64,
    /// Dead letters of other groups.
    of_others: u64,
    /// Records that no gateway wrote.
    foreign: u64,
    seconds: f64,
    /// `--limit` was reached: there may be more.
    limited: bool,
    /// Ctrl-C came before the end.
    interrupted: bool,
    /// What ended it; null: nothing.
    error: Option<String>,
    /// The first thousand of those that cannot be put back.
    skipped: Vec<Skipped>,
}

/// A dead letter that cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Skipped {
    partition: i32,
    offset: i64,
    dedupe_id: String,
    why: String,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let place = args.from.place()?;
    let retry_topic = retry_topic(&args, &place)?;
    let json = args.json;
    let summary =
        reading::blocking(move |stop| run::redrive(&args, &place, &retry_topic, &stop)).await?;
    if json {
        output::line(&serde_json::to_string(&summary)?)?;
    } else {
        output::line(&summary.words())?;
    }
    if let Some(error) = &summary.error {
        output::complain(&format!("error: {error}"));
    }
    Ok(match (&summary.error, summary.interrupted) {
        (Some(_), _) => ExitCode::from(FAILED),
        (None, true) => ExitCode::from(INTERRUPTED),
        (None, false) => ExitCode::SUCCESS,
    })
}

fn retry_topic(args: &Args, place: &Place) -> Result<String, Usage> {
    let named = args.retry_topic.as_ref().or(place.retry_topic.as_ref());
    let Some(topic) = named else {
        return Err(Usage(
            "no retry topic: set dead_letter.retry_topic of the subscription, or give \
             --retry-topic; a record is never put back into the topic that it came from"
                .to_owned(),
        ));
    };
    if *topic == place.topic {
        return Err(Usage(format!("{topic} is the dead-letter topic itself")));
    }
    if place.sources.contains(topic) {
        return Err(Usage(format!(
            "{topic} is read by the subscription as a source, and by others: records are put back \
             into a topic of their own"
        )));
    }
    if place.group.is_none() {
        return Err(Usage(
            "--group is needed with --topic: the retry topic is read by one group, and dead \
             letters of others must not get into it"
                .to_owned(),
        ));
    }
    Ok(topic.clone())
}

impl Summary {
    fn skip(&mut self, skipped: Skipped) {
        if self.skipped.len() < LISTED {
            self.skipped.push(skipped);
        }
    }

    fn words(&self) -> String {
        let verb = if self.dry_run {
            "would be put back"
        } else {
            "put back"
        };
        let mut text = format!(
            "{} {verb} into {} in {:.1} s",
            self.put_back, self.retry_topic, self.seconds
        );
        for (count, what) in [
            (self.put_back_before, "put back before"),
            (self.its_source, "from that very topic, left out"),
            (self.incomplete, "not whole, left out"),
            (self.too_old, "too old for the retry topic, left out"),
            (self.refused, "refused by the retry topic"),
            (self.not_selected, "not selected"),
            (self.of_others, "of other groups"),
            (self.foreign, "not from a gateway"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        if self.limited {
            text.push_str("; --limit reached, there may be more");
        }
        if self.interrupted {
            text.push_str("; interrupted, run it again to go on");
        }
        text
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if delay > MAX_DELAY {
        return Err("at most 30 days".to_owned());
    }
    Ok(delay)
}
