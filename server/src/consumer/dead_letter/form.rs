//! Ever smaller forms of one dead letter: the gateway's own headers go first, then the
//! copy is of headers only.

use bytes::Bytes;

use super::{Letter, header};
use crate::broker::Outgoing;

/// Without these headers a copy can still be told from others and put back.
const NEEDED: [&str; 11] = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "group",
    "subscription",
    "cause",
    "attempts",
    "deliveries",
    "dedupe-id",
    "round",
];

/// How much of a dead letter is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Everything.
    Whole,
    /// Without alias sets and without what can be missed of the gateway's headers.
    Lean,
    /// The record and nothing else.
    Bare,
    /// Headers, and the key, without the value.
    WithoutValue,
    /// Headers only.
    HeadersOnly,
    /// The gateway's headers only, and of them only what is needed.
    ProvenanceOnly,
}

impl Form {
    /// The next smaller one that differs for this letter.
    pub(super) fn smaller(self, letter: &Letter) -> Option<Self> {
        let next = match self {
            Self::Whole => Self::Lean,
            Self::Lean => Self::Bare,
            Self::Bare => Self::WithoutValue,
            Self::WithoutValue => Self::HeadersOnly,
            Self::HeadersOnly => Self::ProvenanceOnly,
            Self::ProvenanceOnly => return None,
        };
        let changes = match next {
            Self::Whole | Self::Lean | Self::Bare => true,
            Self::WithoutValue => letter.record.value.is_some(),
            Self::HeadersOnly => letter.record.key.is_some(),
            Self::ProvenanceOnly => !letter.record.headers.is_empty(),
        };
        if changes {
            Some(next)
        } else {
            next.smaller(letter)
        }
    }

    /// Whether everything of the record itself is in it.
    pub(super) const fn has_the_record(self) -> bool {
        match self {
            Self::Whole | Self::Lean | Self::Bare => true,
            Self::WithoutValue | Self::HeadersOnly | Self::ProvenanceOnly => false,
        }
    }
}

impl Letter {
    /// The letter in this form. `limit` is what its topic takes, if that is known; it is
    /// told where something of the record is left out.
    pub(super) fn in_form(&self, form: Form, limit: Option<u64>) -> Outgoing {
        let Self {
            record,
            provenance,
            aliases,
            ..
        } = self;
        let mut outgoing = record.clone();
        match form {
            Form::Bare => return outgoing,
            Form::Whole | Form::Lean => {}
            Form::WithoutValue => outgoing.value = None,
            Form::HeadersOnly => {
                outgoing.value = None;
                outgoing.key = None;
            }
            Form::ProvenanceOnly => {
                outgoing.value = None;
                outgoing.key = None;
                outgoing.headers.clear();
            }
        }
        let lean = matches!(form, Form::Lean | Form::ProvenanceOnly);
        let own = provenance
            .iter()
            .filter(|(name, _)| !lean || NEEDED.contains(name));
        let own = own.map(|(name, value)| header(name, Bytes::from(value.clone())));
        outgoing.headers.extend(own);
        if !lean {
            outgoing.headers.extend(aliases.iter().cloned());
        }
        let omitted = [
            (
                "value-omitted",
                record.value.is_some() && outgoing.value.is_none(),
            ),
            (
                "key-omitted",
                record.key.is_some() && outgoing.key.is_none(),
            ),
            (
                "headers-omitted",
                !record.headers.is_empty() && form == Form::ProvenanceOnly,
            ),
        ];
        for (name, is_omitted) in omitted {
            if is_omitted {
                outgoing
                    .headers
                    .push(header(name, too_large(size(record), limit)));
            }
        }
        outgoing
    }
}

/// Bytes of a record's key, value and headers.
pub(super) fn size(record: &Outgoing) -> u64 {
    let part = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len) as u64;
    let headers = record.headers.iter();
    let headers: u64 = headers
        .map(|(name, value)| name.len() as u64 + part(value))
        .sum();
    part(&record.key) + part(&record.value) + headers
}

/// The most that a record can take in a batch of its own: lengths, attributes and the
/// batch's head beside its bytes.
pub(super) fn at_most(record: &Outgoing) -> u64 {
    const HEAD: u64 = 61 + 32;
    const EACH_HEADER: u64 = 10;
    size(record) + HEAD + EACH_HEADER * record.headers.len() as u64
}

/// Both sizes in words.
pub(super) fn too_large(bytes: u64, limit: Option<u64>) -> String {
    limit.map_or_else(
        || format!("too large for the topic: {bytes} bytes, and it takes less"),
        |limit| format!("too large for the topic: {bytes} bytes, and it takes {limit}"),
    )
}
