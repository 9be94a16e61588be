//! A `Frame` is on the wire what a `SubscribeResponse` is.

#![allow(clippy::print_stdout, reason = "random tests print their seed")]

use ackgate_proto::{
    EncodedBatch, Frame, RECORD_TAG,
    v1::{self, subscribe_response::Response},
};
use bytes::Bytes;
use prost::Message as _;

fn records(random: &mut fastrand::Rng) -> Vec<v1::Record> {
    let bytes = |random: &mut fastrand::Rng| {
        let length = random.usize(..300);
        random
            .bool()
            .then(|| Bytes::from(vec![random.u8(..); length]))
    };
    let header = |random: &mut fastrand::Rng| v1::Header {
        key: "k".repeat(random.usize(..5)),
        value: bytes(random),
    };
    (0..random.i64(1..50))
        .map(|offset| v1::Record {
            offset,
            timestamp_ms: random.i64(0..2_000_000_000_000),
            timestamp_type: random.i32(0..3),
            key: bytes(random),
            value: bytes(random),
            headers: (0..random.usize(..3)).map(|_| header(random)).collect(),
        })
        .collect()
}

fn encoded(records: &[v1::Record]) -> Bytes {
    let mut slice = Vec::new();
    for record in records {
        prost::encoding::message::encode(RECORD_TAG, record, &mut slice);
    }
    slice.into()
}

#[test]
fn batch_frame_decodes_as_the_response_that_prost_encodes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let head = v1::Batch {
            lane: random.u64(..),
            topic: "t".repeat(random.usize(..20)),
            partition: random.i32(0..),
            epoch: random.u64(..),
            records: Vec::new(),
            redeliveries: vec![
                v1::Redelivery {
                    first_offset: 1,
                    last_offset: 2,
                    attempt: 3,
                    delivery: 4
                };
                random.usize(..3)
            ],
            traces: vec![
                v1::RecordTrace {
                    offset: 1,
                    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                        .to_owned(),
                    tracestate: "a=1".to_owned(),
                };
                random.usize(..3)
            ],
        };
        let records = records(&mut random);
        let (left, right) = records.split_at(random.usize(..records.len()));
        let slices = vec![encoded(left), encoded(right)];
        let frame = Frame::Batch(EncodedBatch {
            head: head.clone(),
            records: slices,
        });
        let batch = v1::Batch { records, ..head };
        let wanted = v1::SubscribeResponse {
            response: Some(Response::Batch(batch)),
        };
        let bytes = frame.encode_to_vec();
        assert_eq!(frame.encoded_len(), bytes.len());
        assert_eq!(bytes.len(), wanted.encoded_len());
        assert_eq!(
            v1::SubscribeResponse::decode(bytes.as_slice()).unwrap(),
            wanted
        );
    }
}

#[test]
fn message_frame_has_the_bytes_of_its_response() {
    let responses = [
        Response::Ping(v1::Ping {}),
        Response::Opened(v1::Opened {
            session: "s".to_owned(),
            ..v1::Opened::default()
        }),
        Response::Settled(v1::Settled {
            sequence: 9,
            answers: Vec::new(),
            more: false,
        }),
        Response::Drain(v1::Drain::default()),
    ];
    for response in responses {
        let frame = Frame::from(response.clone());
        let message = v1::SubscribeResponse {
            response: Some(response),
        };
        let bytes = frame.encode_to_vec();
        assert_eq!(bytes, message.encode_to_vec());
        assert_eq!(frame.encoded_len(), bytes.len());
        assert_eq!(
            Frame::decode(bytes.as_slice()).unwrap(),
            Frame::Message(message)
        );
    }
}

#[test]
fn empty_frame_is_an_empty_response() {
    assert!(Frame::default().encode_to_vec().is_empty());
    let mut frame = Frame::Batch(EncodedBatch {
        head: v1::Batch::default(),
        records: Vec::new(),
    });
    frame.clear();
    assert_eq!(frame, Frame::default());
}
