//! Files that are read whole and must be small.

use std::{fs::File, io::Read as _, path::Path};

/// Larger than any chain of certificates or list of tokens that is meant.
const BYTES: u64 = 1 << 20;

/// What a file holds.
///
/// # Errors
/// Why it cannot be had, in words that follow the path as it is configured.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if bytes.len() as u64 > BYTES {
        return Err(format!("{} has more than 1 MiB", path.display()));
    }
    Ok(bytes)
}
