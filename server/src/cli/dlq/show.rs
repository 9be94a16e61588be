//! `ackgate dlq show`.

use std::{ops::ControlFlow, process::ExitCode};

use anyhow::Result;

use super::{
    letter::Letter,
    place::{From, Place},
    print::{self, Line},
    reading::{self, INTERRUPTED, Reading, Stop},
    select::Select,
};
use crate::{
    broker::kafka::scan::Log,
    cli::{FAILED, Usage, output},
};

/// Arguments of `ackgate dlq show`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 shown, 1 failed or not found, 2 wrong usage or configuration, 130 \
                  interrupted."
)]
pub(super) struct Args {
    #[command(flatten)]
    from: From,
    /// Where it is in the dead-letter topic, as `list` shows it.
    #[arg(value_name = "PARTITION/OFFSET", value_parser = spot, required_unless_present = "dedupe_id")]
    letter: Option<Spot>,
    /// The last dead letter with this dedupe-id instead.
    #[arg(long, value_name = "ID", conflicts_with = "letter")]
    dedupe_id: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A place in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    partition: i32,
    offset: i64,
}

/// What a search came to.
#[derive(Debug, Default)]
struct Sought {
    found: Option<Letter>,
    /// Earlier ones with the same id.
    before: u64,
    interrupted: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let place = args.from.place()?;
    let json = args.json;
    let topic = place.topic.clone();
    let sought = reading::blocking(move |stop| seek(&args, &place, &stop)).await?;
    let Some(letter) = &sought.found else {
        if sought.interrupted {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        output::complain(&format!("there is no such dead letter in {topic}"));
        return Ok(ExitCode::from(FAILED));
    };
    if json {
        output::json(&Line::new(&topic, letter))?;
    } else {
        output::line(&print::whole(&topic, letter))?;
    }
    if sought.before > 0 {
        output::complain(&format!(
            "{} earlier with the same dedupe-id",
            sought.before
        ));
    }
    Ok(if sought.interrupted {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

fn seek(args: &Args, place: &Place, stop: &Stop) -> Result<Sought> {
    let mut reading = Reading::new(&place.cluster, &place.topic, "searching", stop)?;
    let mut sought = Sought::default();
    if let Some(Spot { partition, offset }) = args.letter {
        let logs = reading.logs();
        let Some(log) = logs.iter().find(|log| log.partition == partition) else {
            let count = logs.len();
            let why = format!(
                "{} has {count} partitions, none is {partition}",
                place.topic
            );
            return Err(Usage(why).into());
        };
        if !(log.start..log.end).contains(&offset) {
            return Ok(sought);
        }
        let one = Log {
            partition,
            start: offset,
            end: offset + 1,
        };
        let complete = reading.read(one, |record| {
            sought.found = record.map(|record| Letter::new(partition, record));
            ControlFlow::Continue(())
        })?;
        sought.interrupted = !complete;
        return Ok(sought);
    }
    let select = Select::by_id(args.dedupe_id.as_deref().unwrap_or_default());
    let complete = reading.all(|partition, record| {
        let letter = Letter::new(partition, record);
        if letter
            .told
            .as_ref()
            .is_some_and(|told| select.takes(&letter, told))
        {
            sought.before += u64::from(sought.found.is_some());
            sought.found = Some(letter);
        }
        ControlFlow::Continue(())
    })?;
    sought.interrupted = !complete;
    Ok(sought)
}

fn spot(text: &str) -> Result<Spot, String> {
    let parsed = text.rsplit_once('/').and_then(|(partition, offset)| {
        let partition = partition.parse().ok().filter(|it: &i32| *it >= 0)?;
        let offset = offset.parse().ok().filter(|it: &i64| *it >= 0)?;
        Some(Spot { partition, offset })
    });
    parsed.ok_or_else(|| "expected PARTITION/OFFSET, as 0/42".to_owned())
}
