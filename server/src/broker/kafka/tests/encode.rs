//! What the encoder writes is what prost reads.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the numbers of tests are small"
)]

use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

use super::*;

/// `Some(&[])` is empty and `None` is null, as in Kafka.
type Field<'a> = Option<&'a [u8]>;

struct Case<'a> {
    key: Field<'a>,
    value: Field<'a>,
    timestamp: Timestamp,
    offset: i64,
    headers: &'a [(&'a str, Field<'a>)],
}

const PLAIN: Case<'_> = Case {
    key: Some(b"key"),
    value: Some(b"value"),
    timestamp: Timestamp::CreateTime(1_700_000_000_000),
    offset: 42,
    headers: &[],
};

impl Case<'_> {
    fn message(&self) -> OwnedMessage {
        let headers = (!self.headers.is_empty()).then(|| {
            self.headers
                .iter()
                .fold(OwnedHeaders::new(), |headers, (key, value)| {
                    headers.insert(Header { key, value: *value })
                })
        });
        OwnedMessage::new(
            self.value.map(<[u8]>::to_vec),
            self.key.map(<[u8]>::to_vec),
            "topic".to_owned(),
            self.timestamp,
            0,
            self.offset,
            headers,
        )
    }

    fn record(&self) -> v1::Record {
        let (kind, timestamp_ms) = match self.timestamp {
            Timestamp::NotAvailable => (TimestampType::Unspecified, 0),
            Timestamp::CreateTime(ms) => (TimestampType::CreateTime, ms),
            Timestamp::LogAppendTime(ms) => (TimestampType::LogAppendTime, ms),
        };
        v1::Record {
            offset: self.offset,
            timestamp_ms,
            timestamp_type: kind.into(),
            key: self.key.map(Bytes::copy_from_slice),
            value: self.value.map(Bytes::copy_from_slice),
            headers: self
                .headers
                .iter()
                .map(|(key, value)| v1::Header {
                    key: (*key).to_owned(),
                    value: value.map(Bytes::copy_from_slice),
                })
                .collect(),
        }
    }
}

/// Decodes a chunk as the records of a batch.
fn decode(bytes: &Bytes) -> Vec<v1::Record> {
    v1::Batch::decode(bytes.clone()).unwrap().records
}

fn check(case: &Case<'_>) {
    let mut encoder = Encoder::new();
    assert!(encoder.push(&case.message()));
    let (index, bytes) = encoder.take().unwrap();
    let expected = case.record();
    assert_eq!(decode(&bytes), std::slice::from_ref(&expected));
    assert_eq!(
        index,
        [RecordIndex {
            offset: case.offset as u64,
            end: bytes.len() as u32,
            key: index[0].key,
            timestamp_ms: expected.timestamp_ms,
        }]
    );
    assert_eq!(
        index[0].key.is_some(),
        expected.key.is_some(),
        "an empty key is a key"
    );
    let batch = v1::Batch {
        records: vec![expected],
        ..v1::Batch::default()
    };
    assert_eq!(
        bytes,
        batch.encode_to_vec(),
        "byte for byte what prost writes"
    );
}

#[test]
fn null_and_empty_are_kept_apart() {
    for key in [None, Some(&b""[..]), Some(&b"k"[..])] {
        for value in [None, Some(&b""[..]), Some(&b"v"[..])] {
            check(&Case {
                key,
                value,
                ..PLAIN
            });
        }
    }
}

#[test]
fn tombstone_has_a_key_and_no_value() {
    check(&Case {
        value: None,
        ..PLAIN
    });
}

#[test]
fn headers_keep_their_order_and_repeats() {
    let headers: &[(&str, Field<'_>)] = &[
        ("b", Some(b"1")),
        ("a", None),
        ("b", Some(b"")),
        ("b", Some(b"1")),
        ("", Some(b"no key")),
        ("ключ", Some(&[0xff, 0x00])),
    ];
    check(&Case { headers, ..PLAIN });
}

#[test]
fn timestamps_keep_their_type() {
    for timestamp in [
        Timestamp::NotAvailable,
        Timestamp::CreateTime(0),
        Timestamp::CreateTime(-5),
        Timestamp::CreateTime(i64::MAX),
        Timestamp::LogAppendTime(1),
    ] {
        check(&Case { timestamp, ..PLAIN });
    }
}

#[test]
fn offsets_and_sizes_at_the_edges() {
    let large = vec![7; CHUNK_BYTES * 2];
    for offset in [0, 127, 128, i64::MAX] {
        check(&Case {
            offset,
            value: Some(&large),
            ..PLAIN
        });
    }
}

#[test]
fn random_records_decode_to_themselves() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut encoder = Encoder::new();
    for _ in 0..200 {
        let mut bytes = |most: usize| -> Vec<u8> {
            let len = random.usize(..most);
            std::iter::repeat_with(|| random.u8(..)).take(len).collect()
        };
        let (key, value, header) = (bytes(300), bytes(5000), bytes(20_000));
        let case = Case {
            key: Some(&key),
            value: Some(&value),
            headers: &[("h", Some(&header)), ("n", None)],
            ..PLAIN
        };
        assert!(encoder.push(&case.message()));
        let last = encoder.size();
        let (_, encoded) = encoder.take().unwrap();
        assert_eq!(decode(&encoded), [case.record()], "seed {seed}");
        assert_eq!(encoded.len(), last, "seed {seed}");
    }
}

#[test]
fn chunk_holds_records_back_to_back() {
    let mut encoder = Encoder::new();
    let cases: Vec<Case<'_>> = (10..13).map(|offset| Case { offset, ..PLAIN }).collect();
    for case in &cases {
        assert!(encoder.push(&case.message()));
    }
    assert_eq!(encoder.len(), 3);
    let (index, bytes) = encoder.take().unwrap();
    let records: Vec<v1::Record> = cases.iter().map(Case::record).collect();
    assert_eq!(decode(&bytes), records);
    let mut begin = 0;
    for (entry, record) in index.iter().zip(records) {
        let end = entry.end as usize;
        assert_eq!(
            decode(&bytes.slice(begin..end)),
            [record],
            "each record can be cut out"
        );
        begin = end;
    }
    assert_eq!(begin, bytes.len());
    assert!(encoder.take().is_none(), "nothing is handed out twice");
}

#[test]
fn small_chunk_does_not_pin_a_large_buffer() {
    let mut encoder = Encoder::new();
    encoder.push(&PLAIN.message());
    let (_, bytes) = encoder.take().unwrap();
    let len = bytes.len();
    let buffer = bytes.try_into_mut().expect("nobody else holds it");
    assert_eq!(buffer.capacity(), len);
}

#[test]
fn record_without_an_offset_is_refused() {
    let mut encoder = Encoder::new();
    assert!(
        !encoder.push(
            &Case {
                offset: -1,
                ..PLAIN
            }
            .message()
        )
    );
    assert!(encoder.take().is_none());
}

/// As rdkafka's own, which panic on a key that is not UTF-8.
struct Broken;

impl Headers for Broken {
    fn count(&self) -> usize {
        3
    }

    fn try_get(&self, index: usize) -> Option<Header<'_, &[u8]>> {
        assert_ne!(index, 1, "this key is not UTF-8");
        Some(Header {
            key: "fine",
            value: Some(b"v"),
        })
    }
}

#[test]
fn header_key_that_is_not_utf8_is_replaced_and_its_neighbours_stay() {
    let mut out = BytesMut::new();
    put_headers(&Broken, &mut out);
    let headers = v1::Record::decode(out.freeze()).unwrap().headers;
    let fine = v1::Header {
        key: "fine".to_owned(),
        value: Some(Bytes::from_static(b"v")),
    };
    let unreadable = v1::Header {
        key: UNREADABLE_KEY.to_owned(),
        value: None,
    };
    assert_eq!(headers, [fine.clone(), unreadable, fine]);
}

#[test]
fn traced_records_are_found_and_written_as_others_are() {
    use crate::telemetry::traces::{Sampler, traceparent};
    const TRACE: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &[u8] = b"00-0af7651916cd43dd8448eb211c8031ff-b7ad6b7169203331-00";
    let partition = TopicPartition {
        topic: "orders".into(),
        partition: 3,
    };
    let cases = [
        Case {
            offset: 1,
            headers: &[
                ("traceparent", Some(OTHER)),
                ("TraceParent", Some(TRACE)),
                ("traceparent", None),
                ("tracestate", Some(b"a=1")),
            ],
            ..PLAIN
        },
        Case {
            offset: 2,
            value: None,
            ..PLAIN
        },
    ];
    let all = Sampling::new(Sampler::new(1.0, false), "main").unwrap();
    let derived = all.seed("orders", 3).trace(2);
    let mut encoder = Encoder::probing(Some(all));
    let mut seed = None;
    encoder.begin(&partition, &mut seed);
    for case in &cases {
        assert!(encoder.push(&case.message()));
    }
    let (_, bytes) = encoder.take().unwrap();
    let polled = encoder.polled().unwrap();
    assert_eq!(decode(&bytes), cases.each_ref().map(Case::record));
    let [first, second] = &polled.traces[..] else {
        panic!("both are traced: {polled:?}")
    };
    let parent = first.parent.as_ref().unwrap();
    assert_eq!(traceparent(&parent.span).as_bytes(), TRACE);
    assert_eq!(parent.state.as_deref(), Some("a=1"));
    assert_eq!((first.offset, first.body), (1, Some(5)));
    assert_eq!((second.offset, second.body), (2, None));
    assert_eq!((second.trace, &second.parent), (derived, &None));
    assert!(seed.is_some(), "it is found out once");
    // What is begun anew has nothing of before.
    encoder.begin(&partition, &mut seed);
    assert_eq!(encoder.polled().unwrap().traces, []);

    let none = Sampling::new(Sampler::new(0.0, false), "main");
    let mut encoder = Encoder::probing(none);
    encoder.begin(&partition, &mut seed);
    assert!(encoder.push(&cases[0].message()));
    assert_eq!(encoder.polled(), None, "nobody looks");
}
