//! Reads what `ackgate pub` writes: lines or whole files, on a thread of its own,
//! so that a quiet standard input holds up neither reports nor Ctrl-C.
//!
//! Invariant: what is read and not yet taken is bounded, whatever the input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
};

use anyhow::{Context as _, Result, bail};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// One record per file instead of one per line.
    pub(super) whole: bool,
    /// What parts the key from the value.
    pub(super) key_separator: Option<Vec<u8>>,
}

/// One record's worth of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A record.
    Record {
        /// What came before the separator, if there is to be one.
        key: Option<Vec<u8>>,
        /// The rest.
        value: Vec<u8>,
    },
    /// Input that is not a record, and why.
    Bad(String),
}

/// What the reading thread hands over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// The items that follow come from here.
    From(String),
    /// Items, in order.
    Items(Vec<Item>),
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

    fn name(&self) -> String {
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
    let (sender, receiver) = mpsc::sync_channel(AHEAD);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut outlet = Outlet {
                sender,
                batch: Vec::new(),
                bytes: 0,
                open: true,
            };
            for source in &sources {
                outlet.flush();
                outlet.hand_over(Handover::From(source.name()));
                if let Err(error) = one(source, &shape, &mut outlet) {
                    outlet.push(Item::Bad(format!("cannot be read: {error}")));
                }
                if !outlet.open {
                    return;
                }
            }
            outlet.flush();
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
    let mut bytes = Vec::new();
    while outlet.open {
        bytes.clear();
        let read = if shape.whole {
            input.by_ref().take(limit).read_to_end(&mut bytes)?
        } else {
            input.by_ref().take(limit).read_until(b'\n', &mut bytes)?
        };
        if read == 0 && !shape.whole {
            return Ok(());
        }
        let ended = !shape.whole && bytes.pop_if(|last| *last == b'\n').is_some();
        if bytes.len() > MAX_RECORD {
            if !shape.whole && !ended {
                skip_line(&mut input)?;
            }
            outlet.push(Item::Bad(format!("is longer than {MAX_RECORD} bytes")));
        } else {
            outlet.push(shape.item(&bytes));
        }
        if shape.whole {
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
    fn item(&self, bytes: &[u8]) -> Item {
        let Some(separator) = &self.key_separator else {
            return Item::Record {
                key: None,
                value: bytes.to_vec(),
            };
        };
        let at = bytes
            .windows(separator.len().max(1))
            .position(|window| window == separator);
        match at.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + separator.len()..)?))) {
            Some((key, value)) => Item::Record {
                key: Some(key.to_vec()),
                value: value.to_vec(),
            },
            None => Item::Bad("has no key separator".to_owned()),
        }
    }
}

/// The sending end, which collects items into batches.
struct Outlet {
    sender: SyncSender<Handover>,
    batch: Vec<Item>,
    bytes: usize,
    /// Whether anybody still takes.
    open: bool,
}

impl Outlet {
    fn push(&mut self, item: Item) {
        if let Item::Record { key, value } = &item {
            self.bytes += value.len() + key.as_ref().map_or(0, Vec::len);
        }
        self.batch.push(item);
        if self.batch.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.bytes = 0;
            let batch = std::mem::take(&mut self.batch);
            self.hand_over(Handover::Items(batch));
        }
    }

    fn hand_over(&mut self, read: Handover) {
        self.open = self.open && self.sender.send(read).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(input: &[u8], shape: &Shape) -> Vec<Item> {
        let (sender, receiver) = mpsc::sync_channel(1000);
        let mut outlet = Outlet {
            sender,
            batch: Vec::new(),
            bytes: 0,
            open: true,
        };
        stream(BufReader::with_capacity(7, input), shape, &mut outlet).unwrap();
        outlet.flush();
        drop(outlet);
        receiver
            .iter()
            .flat_map(|handover| match handover {
                Handover::Items(items) => items,
                Handover::From(_) => Vec::new(),
            })
            .collect()
    }

    fn record(key: Option<&[u8]>, value: &[u8]) -> Item {
        Item::Record {
            key: key.map(<[u8]>::to_vec),
            value: value.to_vec(),
        }
    }

    #[test]
    fn each_line_is_a_record_byte_for_byte() {
        let items = items(b"one\n\ntw\xff o\r\nlast", &Shape::default());
        let expected = [&b"one"[..], b"", b"tw\xff o\r", b"last"].map(|value| record(None, value));
        assert_eq!(items, expected);
    }

    #[test]
    fn last_line_may_end_with_a_newline_and_nothing_is_no_record() {
        assert_eq!(items(b"one\n", &Shape::default()), [record(None, b"one")]);
        assert_eq!(items(b"", &Shape::default()), []);
    }

    #[test]
    fn key_ends_at_the_first_separator_and_a_line_without_one_is_bad() {
        let shape = Shape {
            key_separator: Some(b"::".to_vec()),
            ..Shape::default()
        };
        assert_eq!(
            items(b"k::v::w\n::v\nk::\nnone\n", &shape),
            [
                record(Some(b"k"), b"v::w"),
                record(Some(b""), b"v"),
                record(Some(b"k"), b""),
                Item::Bad("has no key separator".to_owned()),
            ]
        );
    }

    #[test]
    fn whole_input_is_one_record_even_when_empty() {
        let shape = Shape {
            whole: true,
            ..Shape::default()
        };
        assert_eq!(items(b"a\nb\n", &shape), [record(None, b"a\nb\n")]);
        assert_eq!(items(b"", &shape), [record(None, b"")]);
    }

    #[test]
    fn line_that_is_too_long_is_bad_and_the_next_is_read() {
        let mut input = vec![b'x'; MAX_RECORD + 1];
        input.extend_from_slice(b"xx\nnext\n");
        let found = items(&input, &Shape::default());
        assert!(
            matches!(&found[0], Item::Bad(why) if why.contains("longer")),
            "not refused"
        );
        assert_eq!(found[1..], [record(None, b"next")]);
        let mut fits = vec![b'x'; MAX_RECORD];
        fits.push(b'\n');
        assert_eq!(items(&fits, &Shape::default()).len(), 1);
    }

    #[test]
    fn reading_ends_when_nobody_takes_any_more() {
        let (sender, receiver) = mpsc::sync_channel(1);
        let mut outlet = Outlet {
            sender,
            batch: Vec::new(),
            bytes: 0,
            open: true,
        };
        drop(receiver);
        let endless = BufReader::new(io::repeat(b'\n'));
        stream(endless, &Shape::default(), &mut outlet).unwrap();
        assert!(!outlet.open);
    }

    #[test]
    fn file_that_is_missing_or_a_directory_is_refused_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = Source::all(&[missing]).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert!(Source::all(&[folder.path().to_owned()]).is_err());
        assert!(Source::all(&["-".into(), "-".into()]).is_err());
        assert_eq!(Source::all(&[]).unwrap(), [Source::Stdin]);
    }

    #[test]
    fn sources_are_announced_in_order_with_their_items() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::write(path, "1\n2\n").unwrap();
        }
        let read = read(Source::all(&paths).unwrap(), Shape::default()).unwrap();
        let seen: Vec<String> = read
            .iter()
            .map(|handover| match handover {
                Handover::From(name) => name,
                Handover::Items(items) => items.len().to_string(),
            })
            .collect();
        let [a, b] = paths.map(|path| path.display().to_string());
        assert_eq!(seen, [a, "2".to_owned(), b, "2".to_owned()]);
    }
}
