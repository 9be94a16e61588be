//! Records of a retry topic: when each may be handed out, and where it came from.
//!
//! Boundary: reads the headers that `ackgate dlq redrive` writes. A record of other
//! software, or with a header that makes no sense, is a record like any other.

use ackgate_proto::v1;

use super::sift::decode;
use crate::{
    broker::Chunk,
    headers::{self, NOT_BEFORE, ORIGIN},
};

/// The time of each record of `chunk` before which it is not handed out, in
/// milliseconds since the Unix epoch; 0: at once.
pub(super) fn not_before(chunk: &Chunk) -> Vec<i64> {
    let mut start = 0;
    let each = chunk.records.iter().map(|index| {
        let end = (index.end as usize).max(start);
        let field = chunk.bytes.slice(start..end);
        start = end;
        let record = decode(field)?;
        redriven(&record, NOT_BEFORE)?.parse().ok()
    });
    each.map(|time: Option<i64>| time.unwrap_or(0).max(0))
        .collect()
}

/// Makes the record the one it was where it came from, as far as its headers tell, and
/// gives its topic and partition there. Filters judge that.
pub(super) fn origin(record: &mut v1::Record) -> Option<(String, i32)> {
    let [topic, partition, offset, timestamp] = ORIGIN.map(|name| redriven(record, name));
    let place = (topic?.to_owned(), partition?.parse().ok()?);
    let offset = offset?.parse().ok()?;
    let timestamp = timestamp.and_then(|text| text.parse().ok());
    record.offset = offset;
    record.timestamp_ms = timestamp.unwrap_or(record.timestamp_ms);
    Some(place)
}

/// What the redrive header of this name says.
pub(in crate::consumer) fn redriven<'a>(record: &'a v1::Record, name: &str) -> Option<&'a str> {
    let parts = |it: &'a v1::Header| (it.key.as_str(), it.value.as_deref());
    headers::redriven(&record.headers, parts, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::REDRIVE;

    fn record(headers: &[(&str, &str)]) -> v1::Record {
        let headers = headers.iter().map(|(key, value)| v1::Header {
            key: format!("{REDRIVE}{key}"),
            value: Some(value.as_bytes().to_vec().into()),
        });
        v1::Record {
            offset: 7,
            timestamp_ms: 70,
            headers: headers.collect(),
            ..v1::Record::default()
        }
    }

    #[test]
    fn origin_is_told_whole_or_not_at_all() {
        let all = [
            ("topic", "orders"),
            ("partition", "2"),
            ("offset", "41"),
            ("timestamp", "9"),
        ];
        let mut whole = record(&all);
        assert_eq!(origin(&mut whole), Some(("orders".to_owned(), 2)));
        assert_eq!((whole.offset, whole.timestamp_ms), (41, 9));
        for left_out in 0..3 {
            let mut some = all.to_vec();
            some.remove(left_out);
            let mut part = record(&some);
            assert_eq!(origin(&mut part), None);
            assert_eq!((part.offset, part.timestamp_ms), (7, 70));
        }
    }

    #[test]
    fn last_header_of_a_name_counts() {
        let twice = record(&[("not-before", "1"), ("not-before", "2")]);
        assert_eq!(redriven(&twice, NOT_BEFORE), Some("2"));
    }
}
