//! One run: from the dead-letter topic into the retry topic, batch by batch.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;

use super::{
    Args, Skipped, Summary,
    again::Before,
    back::{self, Target, number},
    pace::Pace,
};
use crate::{
    broker::{
        Error, ErrorKind, Outgoing,
        kafka::{Keeping, Probe, scan::Log, transact::Transact},
    },
    cli::{
        dlq::{
            letter::{Letter, Told},
            place::Place,
            reading::{CONNECT, Reading, Stop},
            time,
        },
        output,
    },
};

/// A transaction ends with as many records,
const BATCH_RECORDS: usize = 1000;
/// or as many bytes of keys and values,
const BATCH_BYTES: usize = 4 << 20;
/// or after this time, where a rate or the reading makes it slow.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// What is due is looked for this often while a rate holds it back.
const WAIT: Duration = Duration::from_millis(50);

/// Puts back what is selected.
///
/// # Errors
/// It could not be begun. What ends it later is in the summary.
pub(super) fn redrive(
    args: &Args,
    place: &Place,
    retry_topic: &str,
    stop: &Stop,
) -> Result<Summary> {
    let started = Instant::now();
    let mut summary = Summary {
        dead_letter_topic: place.topic.clone(),
        retry_topic: retry_topic.to_owned(),
        dry_run: args.dry_run,
        ..Summary::default()
    };
    let (partitions, keeping) = looked_at(place, retry_topic)?;
    let writer = if args.dry_run {
        None
    } else {
        Some(begun(place, retry_topic)?)
    };
    // After the name was taken over: what is there now is all there is.
    let before = if args.again {
        Some(Before::default())
    } else {
        Before::read(&place.cluster, retry_topic, &place.topic, stop)?
    };
    let Some(before) = before else {
        summary.interrupted = true;
        return Ok(summary);
    };
    let mut reading = Reading::new(&place.cluster, &place.topic, "putting back", stop)?;
    let mut run = Run {
        args,
        place,
        target: Target {
            dead_letter_topic: &place.topic,
            retry_topic,
            partitions,
        },
        keeping,
        writer,
        before,
        stop,
        bar: reading.bar().clone(),
        pace: Pace::new(args.rate),
        batch: Batch::default(),
        cut: false,
        made_anew: false,
        summary,
    };
    let mut complete = true;
    for log in reading.logs() {
        match run.partition(&mut reading, log) {
            Ok(true) => {}
            Ok(false) => {
                complete = false;
                break;
            }
            Err(error) => {
                run.summary.error = Some(if run.made_anew {
                    error.to_string()
                } else {
                    words(&error, retry_topic)
                });
                break;
            }
        }
    }
    drop(reading);
    let mut summary = run.summary;
    summary.interrupted = !complete && !summary.limited;
    summary.seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

/// How many partitions the retry topic has, and what it keeps.
fn looked_at(place: &Place, retry_topic: &str) -> Result<(i32, Option<Keeping>)> {
    let probe = Probe::new(&place.cluster, CONNECT)?;
    let Some(facts) = probe.topic(retry_topic)? else {
        anyhow::bail!("retry topic {retry_topic} does not exist: create it first");
    };
    let keeping = facts.keeping;
    if keeping.is_some_and(|keeping| keeping.compacted) {
        anyhow::bail!(
            "retry topic {retry_topic} is compacted: of records with one key it would keep the \
             last only; set its cleanup.policy to delete"
        );
    }
    let partitions = i32::try_from(facts.partitions.len()).unwrap_or(i32::MAX);
    Ok((partitions, keeping))
}

/// A writer whose name is its own: whoever had it before writes nothing any more.
fn begun(place: &Place, retry_topic: &str) -> Result<Transact> {
    let name = format!("ackgate-redrive/{}/{retry_topic}", place.topic);
    let writer = Transact::new(&place.cluster, &place.properties, retry_topic, &name)?;
    writer
        .begin()
        .context("the retry topic is written in transactions")?;
    Ok(writer)
}

fn words(error: &Error, retry_topic: &str) -> String {
    match error.kind {
        ErrorKind::Fenced => format!(
            "another redrive into {retry_topic} has begun and goes on; what is counted here is \
             there, and it will not be put back twice"
        ),
        ErrorKind::Transient
        | ErrorKind::Full
        | ErrorKind::TooLarge
        | ErrorKind::LetterTooLarge(_)
        | ErrorKind::Operator => format!("{error}; run it again to go on"),
    }
}

/// Records that are written together.
#[derive(Debug, Default)]
struct Batch {
    records: Vec<Outgoing>,
    /// Their dead letters, in the same order.
    letters: Vec<Skipped>,
    bytes: usize,
    since: Option<Instant>,
}

struct Run<'a> {
    args: &'a Args,
    place: &'a Place,
    target: Target<'a>,
    keeping: Option<Keeping>,
    /// `None`: nothing is to be written.
    writer: Option<Transact>,
    before: Before,
    stop: &'a Stop,
    bar: ProgressBar,
    pace: Pace,
    batch: Batch,
    /// Ctrl-C came while a record waited for its turn: it was not taken.
    cut: bool,
    /// The dead-letter topic is not the one that was put back from before.
    made_anew: bool,
    summary: Summary,
}

impl Run<'_> {
    /// Goes through one partition of the dead-letter topic. Whether to go on with the
    /// next one.
    fn partition(&mut self, reading: &mut Reading<'_>, log: Log) -> Result<bool, Error> {
        let mut failed = None;
        let complete = reading.read(log, |record| {
            let next = match record {
                Some(record) => self.take(Letter::new(log.partition, record)),
                None => Ok(()),
            };
            match next.and_then(|()| self.write_if_due()) {
                Ok(()) if self.summary.limited || self.cut => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        // Also what was gathered when Ctrl-C came.
        self.write()?;
        Ok(complete && !self.summary.limited)
    }

    fn take(&mut self, letter: Letter) -> Result<(), Error> {
        let Some(told) = &letter.told else {
            self.summary.foreign += 1;
            return Ok(());
        };
        let offset = letter.record.offset;
        if self.place.group.as_ref() != Some(&told.group) {
            self.summary.of_others += 1;
        } else if !self.args.select.takes(&letter, told) {
            self.summary.not_selected += 1;
        } else if self
            .before
            .contradicts(letter.partition, offset, number(&told.dedupe_id))
        {
            return Err(self.made_anew(&letter));
        } else if self.before.has(letter.partition, offset) {
            self.summary.put_back_before += 1;
        } else if let Some(why) = its_source(self.place, self.target.retry_topic, told) {
            self.summary.its_source += 1;
            self.skip(&letter, told, why);
        } else if !told.omitted.is_empty() {
            self.summary.incomplete += 1;
            let parts = told.omitted.join(", ");
            let why = format!("{parts} not in the dead letter, it was too large for the topic");
            self.skip(&letter, told, why);
        } else if let Some(why) = self.would_vanish(told) {
            self.summary.too_old += 1;
            self.skip(&letter, told, why);
        } else {
            return self.put_back(&letter, told);
        }
        Ok(())
    }

    /// Offsets tell what was put back before, and they begin again with the topic.
    fn made_anew(&mut self, letter: &Letter) -> Error {
        self.made_anew = true;
        let Target {
            dead_letter_topic,
            retry_topic,
            ..
        } = self.target;
        let (partition, offset) = (letter.partition, letter.record.offset);
        Error {
            kind: ErrorKind::Operator,
            detail: format!(
                "{retry_topic} has what was put back from another dead letter at \
                 {dead_letter_topic}/{partition}/{offset}: {dead_letter_topic} was made anew, \
                 and what was put back before cannot be told; --again puts back all of it"
            ),
        }
    }

    /// Why the retry topic would not keep a record, if so: it has its original time.
    fn would_vanish(&self, told: &Told) -> Option<String> {
        let keeps = self.keeping?.deletes_after?;
        let gone_at = told.timestamp_ms.saturating_add(time::span(keeps));
        (told.timestamp_ms > 0 && gone_at <= time::now_ms()).then(|| {
            format!(
                "older than the {} that {} keeps records: set its retention.ms to -1, or its \
                 message.timestamp.type to LogAppendTime",
                humantime::format_duration(keeps),
                self.target.retry_topic
            )
        })
    }

    fn put_back(&mut self, letter: &Letter, told: &Told) -> Result<(), Error> {
        if self.writer.is_none() {
            self.summary.put_back += 1;
            self.count();
            return Ok(());
        }
        loop {
            let wait = self.pace.take(Instant::now());
            if wait.is_zero() {
                break;
            }
            if self.stop.is_asked() {
                self.cut = true;
                return Ok(());
            }
            self.write_if_due()?;
            std::thread::park_timeout(wait.min(WAIT));
        }
        let not_before = self.args.not_before.or_else(|| {
            let delay = self.args.delay?;
            Some(time::now_ms().saturating_add(time::span(delay)))
        });
        let record = back::record(&self.target, letter, told, not_before);
        let size = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
        self.batch.bytes += size(&record.key) + size(&record.value);
        self.batch.records.push(record);
        self.batch
            .letters
            .push(skipped(letter, told, String::new()));
        self.batch.since.get_or_insert_with(Instant::now);
        self.count();
        Ok(())
    }

    /// Whether the limit is reached.
    fn count(&mut self) {
        let taken = self.summary.put_back + self.batch.records.len() as u64;
        self.summary.limited = self.args.limit.is_some_and(|limit| taken >= limit);
    }

    fn write_if_due(&mut self) -> Result<(), Error> {
        let Batch {
            records,
            bytes,
            since,
            ..
        } = &self.batch;
        let is_due = records.len() >= BATCH_RECORDS
            || *bytes >= BATCH_BYTES
            || since.is_some_and(|since| since.elapsed() >= BATCH_TIME);
        if is_due { self.write() } else { Ok(()) }
    }

    /// Counts what is confirmed, and nothing else.
    fn write(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        let Some(writer) = self.writer.as_ref().filter(|_| !batch.records.is_empty()) else {
            return Ok(());
        };
        let written = writer.write(&batch.records)?;
        let refused = written.refused.len() as u64;
        self.summary.put_back += batch.records.len() as u64 - refused;
        self.summary.refused += refused;
        for (at, error) in written.refused {
            if let Some(letter) = batch.letters.get(at) {
                let why = error.to_string();
                self.tell(Skipped {
                    why,
                    ..letter.clone()
                });
            }
        }
        self.bar
            .set_message(format!(", {} put back", self.summary.put_back));
        Ok(())
    }

    fn skip(&mut self, letter: &Letter, told: &Told, why: String) {
        self.tell(skipped(letter, told, why));
    }

    fn tell(&mut self, skipped: Skipped) {
        // As many as are listed: a whole topic of them would drown the rest.
        if self.summary.skipped.len() < super::LISTED {
            let Skipped {
                partition,
                offset,
                why,
                ..
            } = &skipped;
            let line = format!("{partition}/{offset}: not put back: {why}");
            self.bar.suspend(|| output::complain(&line));
        }
        self.summary.skip(skipped);
    }
}

/// Why a dead letter does not go into the topic that it came from, if that is it: other
/// groups would get the record again. Without a configuration, and for topics that the
/// subscription has read once, only the dead letter tells. In the subscription's own
/// retry topic there is nobody else.
pub(super) fn its_source(place: &Place, retry_topic: &str, told: &Told) -> Option<String> {
    let is_own = place.retry_topic.as_deref() == Some(retry_topic);
    (!is_own && told.topic == retry_topic)
        .then(|| format!("it came from {retry_topic}, which others may read too"))
}

fn skipped(letter: &Letter, told: &Told, why: String) -> Skipped {
    Skipped {
        partition: letter.partition,
        offset: letter.record.offset,
        dedupe_id: told.dedupe_id.clone(),
        why,
    }
}
