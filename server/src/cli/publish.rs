//! `ackgate pub`: writes lines, JSON or files to a topic, through a gateway or straight to
//! Kafka, and tells of every record what became of it.
//!
//! Invariant: what is read and not yet written is bounded, however long the input is.

use std::process::ExitCode;

use anyhow::Result;

use super::{
    output,
    stop::{INTERRUPTED, Stop},
};

mod args;
mod direct;
mod draft;
mod input;
mod object;
mod pace;
mod tally;
mod through;

pub use args::Args;
use direct::Direct;
use draft::Record;
use input::{Handover, Item, Source};
use pace::Pace;
use tally::{Place, Summary, Tally};
use through::Through;

/// Where records go.
#[derive(Debug)]
enum Way {
    Through(Through),
    Direct(Direct),
}

/// How a run ended.
#[derive(Debug)]
struct Outcome {
    summary: Summary,
    /// It was told to stop a second time.
    impatient: bool,
}

/// Runs `ackgate pub`.
///
/// # Errors
/// The arguments do not fit together, an input cannot be opened, or nothing can be written
/// at all. Records that fail one by one are in the exit code.
pub async fn run(args: Args) -> Result<ExitCode> {
    let mut stop = Stop::new()?;
    let published = publish(&args, &mut stop).await;
    let published = published.map_err(|error| args.access.explained(error))?;
    let Some(Outcome { summary, impatient }) = published else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(error) = &summary.error {
        output::complain(&format!("error: nothing more is written: {error}"));
    }
    output::line(&if args.json {
        serde_json::to_string(&summary)?
    } else {
        summary.to_string()
    })?;
    Ok(if impatient {
        ExitCode::from(INTERRUPTED)
    } else if summary.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the whole input; `None`: it was told to stop before it could begin.
async fn publish(args: &Args, stop: &mut Stop) -> Result<Option<Outcome>> {
    let cluster = args.cluster()?;
    let sources = Source::all(&args.files())?;
    let tally = Tally::new(sources.iter().map(Source::name).collect());
    let way = match cluster {
        Some(cluster) => {
            let connecting = Direct::connect(args, cluster, tally.clone());
            tokio::select! {
                way = connecting => Way::Direct(way?),
                () = stop.asked() => return Ok(None),
            }
        }
        None => match Through::connect(args, tally.clone(), stop).await? {
            Some(through) => Way::Through(through),
            None => return Ok(None),
        },
    };
    let mut input = input::read(sources, args.shape())?;
    let mut pace = Pace::new(args.rate);
    let mut ended = End::Input;
    'reading: loop {
        let next = tokio::select! {
            biased;
            () = stop.asked() => None,
            next = input.recv() => Some(next),
        };
        let Handover { source, items } = match next {
            None => {
                ended = End::Stopped;
                break;
            }
            Some(None) => break,
            Some(Some(handover)) => handover,
        };
        for (record, item) in items {
            let place = Place { source, record };
            tokio::select! {
                biased;
                () = stop.asked() => {
                    ended = End::Stopped;
                    break 'reading;
                }
                () = take(args, &way, &tally, &mut pace, place, item) => {}
            }
        }
        if let Some(error) = way.error() {
            ended = End::Way(error);
            break;
        }
    }
    // What was read ahead is not written, and not counted.
    drop(input);
    let impatient = way.finish(matches!(ended, End::Stopped), stop).await?;
    let mut summary = tally.finish(args.topic());
    match ended {
        End::Input => {}
        End::Stopped => summary.interrupted = true,
        End::Way(error) => summary.error = Some(error),
    }
    Ok(Some(Outcome { summary, impatient }))
}

/// What ended the reading.
enum End {
    Input,
    Stopped,
    Way(String),
}

/// Sends one record when it is its turn, or counts it as failed. Cancel safe.
async fn take(args: &Args, way: &Way, tally: &Tally, pace: &mut Pace, place: Place, item: Item) {
    let record = match item {
        Item::Record(draft) => draft.finish(args),
        Item::Bad(why) => Err(why),
    };
    match record {
        Ok(record) => {
            pace.turn().await;
            let bytes = record.size();
            way.send(place, record).await;
            tally.read(bytes);
        }
        Err(why) => tally.failed(place, false, why),
    }
}

impl Way {
    async fn send(&self, place: Place, record: Record) {
        match self {
            Self::Through(through) => through.send(place, record).await,
            Self::Direct(direct) => direct.send(place, record).await,
        }
    }

    /// What ended it for good, if something has.
    fn error(&self) -> Option<String> {
        match self {
            Self::Through(through) => through.error(),
            Self::Direct(_) => None,
        }
    }

    /// Waits for what became of the records; returns whether it was told to stop meanwhile.
    async fn finish(self, stopping: bool, stop: &mut Stop) -> Result<bool> {
        match self {
            Self::Through(through) => through.finish(stopping, stop).await,
            Self::Direct(direct) => {
                direct.finish().await?;
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests;
