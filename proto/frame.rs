//! [`Frame`]: a `SubscribeResponse` as the gateway sends it. Records are encoded
//! once, when they are polled; a batch of them is sent, retained and sent again
//! as the same bytes, so it is never built from structs.
//!
//! Boundary: only encoding. Subscribers decode a frame as an ordinary
//! [`v1::SubscribeResponse`].

use bytes::{Buf, BufMut, Bytes};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};

use crate::v1;

/// Field number of `Batch.records`: every encoded record starts with its key.
pub const RECORD_TAG: u32 = 5;

/// Field number of `SubscribeResponse.batch`.
const BATCH_TAG: u32 = 2;

/// A batch whose records are already encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedBatch {
    /// The batch without its records.
    pub head: v1::Batch,
    /// The records, each as field key of [`RECORD_TAG`], length and message.
    /// Adjacent records share a slice.
    pub records: Vec<Bytes>,
}

impl EncodedBatch {
    /// Returns the length of the encoded batch in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.head.encoded_len() + self.records.iter().map(Bytes::len).sum::<usize>()
    }
}

/// One message of the gateway to a subscriber.
#[allow(
    clippy::large_enum_variant,
    reason = "few are on their way at a time, and a box would be an allocation for each"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Anything but a batch.
    Message(v1::SubscribeResponse),
    /// A batch.
    Batch(EncodedBatch),
}

impl Default for Frame {
    fn default() -> Self {
        Self::Message(v1::SubscribeResponse::default())
    }
}

impl From<v1::subscribe_response::Response> for Frame {
    fn from(response: v1::subscribe_response::Response) -> Self {
        Self::Message(v1::SubscribeResponse {
            response: Some(response),
        })
    }
}

impl Message for Frame {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        match self {
            Self::Message(message) => message.encode_raw(buf),
            Self::Batch(batch) => {
                encode_key(BATCH_TAG, WireType::LengthDelimited, buf);
                encode_varint(batch.encoded_len() as u64, buf);
                batch.head.encode_raw(buf);
                for slice in &batch.records {
                    buf.put_slice(slice);
                }
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
        if let Self::Batch(_) = self {
            *self = Self::default();
        }
        match self {
            Self::Message(message) => message.merge_field(tag, wire_type, buf, ctx),
            Self::Batch(_) => Ok(()),
        }
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Message(message) => message.encoded_len(),
            Self::Batch(batch) => {
                let len = batch.encoded_len();
                key_len(BATCH_TAG) + encoded_len_varint(len as u64) + len
            }
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
