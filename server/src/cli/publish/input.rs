//! Reads what `ackgate pub` writes: lines, JSON or whole files, on a thread of its own,
//! so that a quiet standard input holds up neither reports nor Ctrl-C.
//!
//! Invariant: what is read and not yet taken is bounded, whatever the input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    thread,
};

use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{draft::Draft, object};

/// Longest line or file that is taken as one record.
pub(super) const MAX_RECORD: usize = 64 * 1024 * 1024;

/// Records handed over at once, so that the hand-over costs little per record.
const BATCH_RECORDS: usize = 256;

/// Bytes after which a batch is handed over even if it has fewer records.
const BATCH_BYTES: usize = 1024 * 1024;

/// Larger than standard input's own buffer, which is then passed by: what is not in
/// here has to be waited for.
const BUFFER: usize = 64 * 1024;

/// Batches read ahead.
const AHEAD: usize = 4;

/// Where records come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// How input becomes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A value a line.
    Lines,
    /// A key and a value a line, with this in between.
    KeyedLines(Vec<u8>),
    /// A JSON object a line; lines of nothing but spaces are passed over.
    Objects,
    /// A value a file.
    Whole,
}

/// One record's worth of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A record.
    Record(Box<Draft>),
    /// Input that is not a record, and why.
    Bad(String),
}

/// What the reading thread hands over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handover {
    /// Which of the sources the items are from.
    pub(super) source: u32,
    /// Items in order, each with its number from 1: the line, where lines are records.
    pub(super) items: Vec<(u64, Item)>,
}

impl Source {
    /// Sources for the file arguments; none, or `-`, is standard input.
    ///
    /// # Errors
    /// A file cannot be read, or standard input is named twice.
    pub(super) fn all(files: &[PathBuf]) -> Result<Vec<Self>> {
        if files.is_empty() {
            return Ok(vec![Self::Stdin]);
        }
        let mut sources = Vec::with_capacity(files.len());
        for file in files {
            if file.as_os_str() == "-" {
                if sources.contains(&Self::Stdin) {
                    bail!("standard input can be read only once");
                }
                sources.push(Self::Stdin);
            } else {
                // Found out before the first record is written.
                let metadata = File::open(file)
                    .and_then(|file| file.metadata())
                    .with_context(|| format!("{} cannot be read", file.display()))?;
                if metadata.is_dir() {
                    bail!("{} is a directory", file.display());
                }
                sources.push(Self::File(file.clone()));
            }
        }
        Ok(sources)
    }

    /// As failures name it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdin => "stdin".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Starts to read. The channel ends with the input; dropping it ends the thread at
/// its next record.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn read(sources: Vec<Source>, shape: Shape) -> Result<Receiver<Handover>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut outlet = Outlet::new(sender);
            for (number, source) in (0..).zip(&sources) {
                outlet.begin(number);
                if let Err(error) = one(source, &shape, &mut outlet) {
                    outlet.push(Some(Item::Bad(format!("cannot be read: {error}"))));
                }
                outlet.flush();
                if !outlet.open {
                    return;
                }
            }
        })?;
    Ok(receiver)
}

fn one(source: &Source, shape: &Shape, outlet: &mut Outlet) -> io::Result<()> {
    match source {
        Source::Stdin => stream(
            BufReader::with_capacity(BUFFER, io::stdin().lock()),
            shape,
            outlet,
        ),
        Source::File(path) => stream(
            BufReader::with_capacity(BUFFER, File::open(path)?),
            shape,
            outlet,
        ),
    }
}

/// Cuts one input into records.
fn stream(mut input: BufReader<impl Read>, shape: &Shape, outlet: &mut Outlet) -> io::Result<()> {
    let limit = u64::try_from(MAX_RECORD)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let whole = *shape == Shape::Whole;
    let mut bytes = Vec::new();
    while outlet.open {
        bytes.clear();
        let read = if whole {
            input.by_ref().take(limit).read_to_end(&mut bytes)?
        } else {
            input.by_ref().take(limit).read_until(b'\n', &mut bytes)?
        };
        if read == 0 && !whole {
            return Ok(());
        }
        let ended = !whole && bytes.pop_if(|last| *last == b'\n').is_some();
        if bytes.len() > MAX_RECORD {
            if !whole && !ended {
                skip_line(&mut input)?;
            }
            let why = format!("is longer than {MAX_RECORD} bytes");
            outlet.push(Some(Item::Bad(why)));
        } else {
            outlet.push(shape.item(&bytes));
        }
        if whole {
            return Ok(());
        }
        // What comes next may take its time: hand over what there is.
        if input.buffer().is_empty() {
            outlet.flush();
        }
    }
    Ok(())
}

/// Passes over the rest of a line without keeping it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffered = input.fill_buf()?;
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let pass = end.map_or(buffered.len(), |end| end + 1);
        let last = end.is_some() || pass == 0;
        input.consume(pass);
        if last {
            return Ok(());
        }
    }
}

impl Shape {
    /// What the bytes are; `None`: nothing.
    fn item(&self, bytes: &[u8]) -> Option<Item> {
        let draft = match self {
            Self::Lines | Self::Whole => Ok(Draft {
                value: Some(bytes.to_vec()),
                ..Draft::default()
            }),
            Self::KeyedLines(separator) => keyed(bytes, separator),
            Self::Objects if bytes.trim_ascii().is_empty() => return None,
            Self::Objects => object::read(bytes),
        };
        Some(match draft {
            Ok(draft) => Item::Record(Box::new(draft)),
            Err(why) => Item::Bad(why),
        })
    }
}

fn keyed(bytes: &[u8], separator: &[u8]) -> Result<Draft, String> {
    let at = bytes
        .windows(separator.len().max(1))
        .position(|window| window == separator);
    let parts = at.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + separator.len()..)?)));
    let (key, value) = parts.ok_or("has no key separator")?;
    Ok(Draft {
        key: Some(Some(key.to_vec())),
        value: Some(value.to_vec()),
        ..Draft::default()
    })
}

/// The sending end, which collects items into batches.
struct Outlet {
    sender: Sender<Handover>,
    source: u32,
    /// Of the last item of the source.
    number: u64,
    batch: Vec<(u64, Item)>,
    bytes: usize,
    /// Whether anybody still takes.
    open: bool,
}

impl Outlet {
    const fn new(sender: Sender<Handover>) -> Self {
        Self {
            sender,
            source: 0,
            number: 0,
            batch: Vec::new(),
            bytes: 0,
            open: true,
        }
    }

    /// What follows is from another source.
    const fn begin(&mut self, source: u32) {
        (self.source, self.number) = (source, 0);
    }

    /// Takes the next item, or counts input that is none.
    fn push(&mut self, item: Option<Item>) {
        self.number += 1;
        let Some(item) = item else { return };
        if let Item::Record(draft) = &item {
            let length = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
            self.bytes += length(&draft.value) + draft.key.as_ref().map_or(0, length);
            let headers = draft.headers.iter();
            self.bytes += headers
                .map(|(name, it)| name.len() + length(it))
                .sum::<usize>();
        }
        self.batch.push((self.number, item));
        if self.batch.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.bytes = 0;
            let handover = Handover {
                source: self.source,
                items: std::mem::take(&mut self.batch),
            };
            self.open = self.open && self.sender.blocking_send(handover).is_ok();
        }
    }
}

#[cfg(test)]
mod tests;
