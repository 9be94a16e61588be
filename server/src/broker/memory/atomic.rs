//! What is true of letters that go with commits.

use ackgate_lane::AckMap;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use crate::{
    broker::{Commit, Outgoing},
    headers::DEAD_LETTER,
};

/// The offset that a dead letter names.
fn offset_of(letter: &Outgoing) -> u64 {
    let name = format!("{DEAD_LETTER}offset");
    let header = letter.headers.iter().find(|(key, _)| *key == name);
    let value = header.and_then(|(_, value)| value.as_ref());
    let value = value.expect("a dead letter says whose it is");
    let text = std::str::from_utf8(value).expect("text");
    text.parse().expect("a number")
}

/// Offsets of letters of `commit` that it does not settle, or that are among `stored`.
pub(super) fn untrue(stored: &[Outgoing], commit: &Commit) -> Vec<u64> {
    let map = commit.metadata.as_ref().and_then(|text| {
        let bytes = STANDARD_NO_PAD.decode(&**text).ok()?;
        AckMap::decode(&bytes).ok()
    });
    let is_settled = |offset: u64| {
        let mut settled = map.iter().flat_map(|map| &map.settled);
        offset < commit.position.get()
            || settled.any(|run| (run.first().get()..run.end().get()).contains(&offset))
    };
    let is_stored = |offset: u64| stored.iter().any(|letter| offset_of(letter) == offset);
    let letters = commit.letters.iter().map(offset_of);
    letters
        .filter(|offset| !is_settled(*offset) || is_stored(*offset))
        .collect()
}
