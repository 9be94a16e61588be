//! Which dead letters are meant.

use super::{
    letter::{Letter, Told},
    time,
};

/// Which dead letters; without any of these, all.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which dead letters")]
pub(super) struct Select {
    /// Given up for this cause. May be repeated, or a list with commas.
    #[arg(long, value_name = "CAUSE", value_delimiter = ',', value_parser = CAUSES)]
    cause: Vec<String>,

    /// With this code of the subscriber's. May be repeated.
    #[arg(long, value_name = "CODE")]
    code: Vec<String>,

    /// Given up at this time or later: 2026-01-01T00:00:00Z, or how long ago, as 2h.
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    since: Option<i64>,

    /// Given up before this time.
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    until: Option<i64>,

    /// Of records with this key, as text.
    #[arg(long, value_name = "KEY", conflicts_with = "key_hex")]
    key: Option<String>,

    /// Of records with this key, its bytes as hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = bytes)]
    key_hex: Option<Bytes>,

    /// Of records that came from this topic, or from this lane of it. May be repeated.
    #[arg(long, value_name = "TOPIC[/PARTITION]", value_parser = lane)]
    lane: Vec<Lane>,

    /// Of the record with this dedupe-id. May be repeated.
    #[arg(long, value_name = "ID")]
    dedupe_id: Vec<String>,
}

/// Why records are given up.
const CAUSES: [&str; 6] = [
    "rejected",
    "attempts-exhausted",
    "deliveries-exhausted",
    "oversize",
    "content",
    "expired",
];

/// A topic, or one partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lane {
    topic: String,
    partition: Option<i32>,
}

/// Bytes of an argument; clap would take a plain vector for repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl Select {
    /// By its id alone.
    pub(super) fn by_id(id: &str) -> Self {
        Self {
            dedupe_id: vec![id.to_owned()],
            ..Self::default()
        }
    }

    /// Whether nothing is asked, so that records are meant that tell nothing of
    /// themselves.
    pub(super) fn is_open(&self) -> bool {
        let Self {
            cause,
            code,
            since,
            until,
            key,
            key_hex,
            lane,
            dedupe_id,
        } = self;
        let lists = [cause, code, dedupe_id].into_iter().all(Vec::is_empty);
        let times = since.is_none() && until.is_none();
        lists && times && key.is_none() && key_hex.is_none() && lane.is_empty()
    }

    /// Whether a dead letter is meant.
    pub(super) fn takes(&self, letter: &Letter, told: &Told) -> bool {
        let any = |of: &[String], is: &str| of.is_empty() || of.iter().any(|one| one == is);
        let key = self.key.as_ref().map(String::as_bytes);
        let key = key.or_else(|| self.key_hex.as_ref().map(|bytes| bytes.0.as_slice()));
        let lane = |lane: &Lane| {
            lane.topic == told.topic && lane.partition.is_none_or(|it| it == told.partition)
        };
        any(&self.cause, &told.cause)
            && any(&self.code, &told.code)
            && any(&self.dedupe_id, &told.dedupe_id)
            && key.is_none_or(|key| letter.record.key.as_deref() == Some(key))
            && (self.lane.is_empty() || self.lane.iter().any(lane))
            && self.since.is_none_or(|since| letter.when() >= since)
            && self.until.is_none_or(|until| letter.when() < until)
    }
}

fn lane(text: &str) -> Result<Lane, String> {
    let (topic, partition) = match text.rsplit_once('/') {
        None => (text, None),
        Some((topic, partition)) => {
            let number = partition.parse::<i32>().ok().filter(|it| *it >= 0);
            (
                topic,
                Some(number.ok_or("expected TOPIC or TOPIC/PARTITION")?),
            )
        }
    };
    if topic.is_empty() {
        return Err("expected TOPIC or TOPIC/PARTITION".to_owned());
    }
    Ok(Lane {
        topic: topic.to_owned(),
        partition,
    })
}

fn bytes(text: &str) -> Result<Bytes, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| {
        let number = digit(*high)? << 4 | digit(*low)?;
        u8::try_from(number).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes
        .filter(|_| rest.is_empty())
        .map(Bytes)
        .ok_or_else(|| "expected hexadecimal digits, two for each byte".to_owned())
}
