//! References to secrets: `{ env = "NAME" }` and `{ file = "PATH" }`.

use std::{fs::File, io::Read, path::Path};

use super::tree::Table;

/// A secret is read up to this many bytes.
const BYTES: u64 = 1 << 20;

/// The kind and target of a reference.
pub(super) fn reference(table: &Table) -> Option<(&'static str, &str)> {
    let mut entries = table.iter();
    let (key, node) = entries.next()?;
    let kind = ["env", "file"].into_iter().find(|kind| kind == key)?;
    entries.next().is_none().then_some(())?;
    Some((kind, node.text()?))
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(BYTES + 1).read_to_string(&mut text))
        .map_err(|error| format!("names a file that cannot be read: {error}"))?;
    if text.len() as u64 > BYTES {
        return Err("names a file of more than 1MiB".to_owned());
    }
    // Editors and secret stores end a file with a line break that is not meant.
    let text = text
        .strip_suffix('\n')
        .map_or(text.as_str(), |t| t.strip_suffix('\r').unwrap_or(t));
    Ok(text.to_owned())
}
