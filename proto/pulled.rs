//! [`Pulled`]: a `PullResponse` as the gateway sends it. Its batches are encoded already,
//! as in a [`Frame`](crate::Frame).
//!
//! Boundary: only encoding. Callers decode it as an ordinary [`v1::PullResponse`].

use bytes::{Buf, BufMut};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};

use crate::{EncodedBatch, v1};

/// Field number of `PullResponse.batches`.
const BATCHES_TAG: u32 = 3;

/// The answer to a `Pull`.
#[derive(Debug, Default)]
pub struct Pulled {
    /// The answer without its batches.
    pub head: v1::PullResponse,
    /// The batches.
    pub batches: Vec<EncodedBatch>,
}

impl Message for Pulled {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.head.encode_raw(buf);
        for batch in &self.batches {
            encode_key(BATCHES_TAG, WireType::LengthDelimited, buf);
            encode_varint(batch.encoded_len() as u64, buf);
            batch.head.encode_raw(buf);
            for slice in &batch.records {
                buf.put_slice(slice);
            }
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.head.merge_field(tag, wire_type, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        let batches = self.batches.iter().map(|batch| {
            let len = batch.encoded_len();
            key_len(BATCHES_TAG) + encoded_len_varint(len as u64) + len
        });
        self.head.encoded_len() + batches.sum::<usize>()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::RECORD_TAG;

    fn record(offset: i64) -> v1::Record {
        v1::Record {
            offset,
            value: Some(Bytes::from_static(b"five")),
            ..v1::Record::default()
        }
    }

    fn encoded(record: &v1::Record) -> Bytes {
        let mut bytes = Vec::new();
        encode_key(RECORD_TAG, WireType::LengthDelimited, &mut bytes);
        encode_varint(record.encoded_len() as u64, &mut bytes);
        record.encode_raw(&mut bytes);
        bytes.into()
    }

    #[test]
    fn answer_is_read_as_the_protocol_says_it() {
        let head = |lane| v1::Batch {
            lane,
            topic: "orders".to_owned(),
            ..v1::Batch::default()
        };
        let answer = v1::PullResponse {
            session: "s".to_owned(),
            draining: true,
            ..v1::PullResponse::default()
        };
        let pulled = Pulled {
            head: answer.clone(),
            batches: vec![
                EncodedBatch {
                    head: head(1),
                    records: vec![encoded(&record(3)), encoded(&record(5))],
                },
                EncodedBatch {
                    head: head(2),
                    records: vec![encoded(&record(0))],
                },
            ],
        };
        let bytes = pulled.encode_to_vec();
        assert_eq!(bytes.len(), pulled.encoded_len());
        let batch = |lane, records| v1::Batch {
            records,
            ..head(lane)
        };
        assert_eq!(
            v1::PullResponse::decode(&bytes[..]),
            Ok(v1::PullResponse {
                batches: vec![
                    batch(1, vec![record(3), record(5)]),
                    batch(2, vec![record(0)])
                ],
                ..answer
            })
        );
    }
}
