//! Which records are traced, and the reading of it.

use super::{options, reader::Reader, value};

/// Which records are traced, and where spans are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traces {
    /// The part of all traces that is recorded, 0 to 1.
    pub sample: f64,
    /// Whether a record's own header decides instead, where it has one.
    pub trust_parent: bool,
    /// Spans that `/v1/traces` can show.
    pub keep: usize,
}

/// Reads it.
pub(super) fn traces(reader: &mut Reader<'_>) -> Option<Traces> {
    let sample = reader.read(&options::TRACES_SAMPLE, "", value::float);
    let trust_parent = reader.read(&options::TRACES_TRUST_PARENT, "", value::flag);
    let keep = reader.read(&options::TRACES_KEEP, "", value::integer);
    Some(Traces {
        sample: sample?,
        trust_parent: trust_parent?,
        keep: usize::try_from(keep?).unwrap_or(usize::MAX),
    })
}
