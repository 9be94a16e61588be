//! A record of a dead-letter topic, and what its headers tell.
//!
//! A topic may hold anything: a record whose headers do not tell where it came from is
//! foreign, never an error.

use ackgate_proto::v1;

use crate::headers::{self, DEAD_LETTER, DEDUPE_ID, ORIGIN, ROUND};

/// A record of the topic.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) partition: i32,
    pub(super) record: v1::Record,
    /// `None`: it was not written by a gateway.
    pub(super) told: Option<Told>,
}

/// What a gateway said about the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// In milliseconds since the Unix epoch; 0 if the record had none.
    pub(super) timestamp_ms: i64,
    pub(super) group: String,
    pub(super) subscription: String,
    pub(super) cause: String,
    pub(super) code: String,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) deliveries: u32,
    pub(super) first_delivery: Option<String>,
    pub(super) last_delivery: Option<String>,
    pub(super) subscriber: String,
    pub(super) counts: Option<String>,
    pub(super) dedupe_id: String,
    /// How often the record had been put back before.
    pub(super) round: u32,
    /// Parts of the record that the topic was too small for.
    pub(super) omitted: Vec<&'static str>,
}

/// Parts of a record that a dead letter may lack, and the header that says so.
const PARTS: [(&str, &str); 3] = [
    ("value", "value-omitted"),
    ("key", "key-omitted"),
    ("headers", "headers-omitted"),
];

impl Letter {
    pub(super) fn new(partition: i32, record: v1::Record) -> Self {
        let told = Told::read(&record.headers);
        Self {
            partition,
            record,
            told,
        }
    }

    /// When it was given up, as well as it is known, in milliseconds since the Unix
    /// epoch: when it was written where the topic keeps that, else when it was last
    /// handed out, else the record's own time.
    pub(super) fn when(&self) -> i64 {
        let own = self.record.timestamp_ms;
        if self.record.timestamp_type == i32::from(v1::TimestampType::LogAppendTime) {
            return own;
        }
        let last = self.told.as_ref().and_then(|told| {
            let text = told.last_delivery.as_deref()?;
            super::time::point(text).ok()
        });
        last.unwrap_or(own)
    }

    /// The headers that the record itself had, in order.
    pub(super) fn own_headers(&self) -> impl Iterator<Item = &v1::Header> {
        let all: Vec<&v1::Header> = self.record.headers.iter().collect();
        headers::own(all, |header| header.key.as_str())
    }
}

impl Told {
    /// `None` if the headers do not tell where the record came from.
    fn read(all: &[v1::Header]) -> Option<Self> {
        let find =
            |name: &str| headers::last(all, parts, DEAD_LETTER, name).map(String::from_utf8_lossy);
        let text = |name: &str| find(name).map(std::borrow::Cow::into_owned);
        let [topic, partition, offset, timestamp] = ORIGIN.map(text);
        let number = |name: &str| find(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let (topic, group) = (topic?, text("group").unwrap_or_default());
        let partition: i32 = partition?.parse().ok().filter(|it| *it >= 0)?;
        let offset: i64 = offset?.parse().ok().filter(|it| *it >= 0)?;
        let dedupe_id =
            text(DEDUPE_ID).unwrap_or_else(|| format!("{group}/{topic}/{partition}/{offset}"));
        Some(Self {
            topic,
            partition,
            offset,
            timestamp_ms: timestamp.and_then(|text| text.parse().ok()).unwrap_or(0),
            group,
            subscription: text("subscription").unwrap_or_default(),
            cause: text("cause").unwrap_or_default(),
            code: text("code").unwrap_or_default(),
            reason: text("reason").unwrap_or_default(),
            attempts: number("attempts"),
            deliveries: number("deliveries"),
            first_delivery: text("first-delivery"),
            last_delivery: text("last-delivery"),
            subscriber: text("subscriber").unwrap_or_default(),
            counts: text("counts"),
            dedupe_id,
            round: number(ROUND),
            omitted: PARTS
                .into_iter()
                .filter(|(_, header)| find(header).is_some())
                .map(|(part, _)| part)
                .collect(),
        })
    }
}

/// The key and the value of a header.
pub(super) fn parts(header: &v1::Header) -> (&str, Option<&[u8]>) {
    (&header.key, header.value.as_deref())
}
