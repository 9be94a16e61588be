//! Messages are measured before they are decoded.
//!
//! An empty record takes two bytes of a message and more than a hundred of memory, so a
//! limit on a message's bytes alone bounds nothing. What repeats is counted here first,
//! while it is still bytes.

use std::marker::PhantomData;

use prost::{
    Message,
    bytes::{Buf as _, Bytes},
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

use crate::v1;

/// The most parts of one message: records and their headers, verdicts, and whatever else
/// repeats. Each takes some 150 bytes of memory.
pub const MOST_PARTS: usize = 200_000;

/// A field of a message in which something repeats.
#[derive(Debug)]
pub struct Field {
    /// Its number.
    number: u32,
    /// Whether it repeats itself: then each is a part.
    is_part: bool,
    /// What repeats inside of it.
    inside: &'static [Self],
}

const fn part(number: u32, inside: &'static [Field]) -> Field {
    let is_part = true;
    Field {
        number,
        is_part,
        inside,
    }
}

const fn one(number: u32, inside: &'static [Field]) -> Field {
    let is_part = false;
    Field {
        number,
        is_part,
        inside,
    }
}

/// Where the parts of a message are.
pub trait Parts {
    /// The fields in which something repeats.
    const FIELDS: &'static [Field];
}

impl Parts for v1::SubscribeRequest {
    const FIELDS: &'static [Field] = &[
        // Of an `Open`: what `resume` names, and the topics of `ad_hoc`.
        one(1, &[one(8, &[part(2, &[])]), one(13, &[part(2, &[])])]),
        // Verdicts, and extensions.
        one(3, &[part(2, &[])]),
        one(4, &[part(2, &[])]),
    ];
}

impl Parts for v1::PullRequest {
    // The topics of `ad_hoc`.
    const FIELDS: &'static [Field] = &[one(3, &[part(2, &[])])];
}

impl Parts for v1::SettleRequest {
    const FIELDS: &'static [Field] = &[part(2, &[])];
}

impl Parts for v1::ExtendRequest {
    const FIELDS: &'static [Field] = &[part(2, &[])];
}

/// The headers of a record.
const HEADERS: &[Field] = &[part(5, &[])];

impl Parts for v1::PublishRequest {
    const FIELDS: &'static [Field] = &[one(2, &[part(1, HEADERS)])];
}

impl Parts for v1::PublishBatchRequest {
    const FIELDS: &'static [Field] = &[part(2, HEADERS)];
}

impl Parts for v1::ListLanesRequest {
    const FIELDS: &'static [Field] = &[];
}

impl Parts for v1::ResetBreakersRequest {
    const FIELDS: &'static [Field] = &[];
}

/// Encodes as tonic does, and decodes what has few enough parts. Others end as messages
/// do that are too large, with OUT_OF_RANGE.
#[derive(Clone, Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Parts + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// See [`BoundedCodec`].
#[derive(Clone, Debug)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Parts + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        let mut left = MOST_PARTS;
        if !count(bytes.clone(), U::FIELDS, &mut left) {
            return Err(Status::out_of_range(format!(
                "a message of more than {MOST_PARTS} parts"
            )));
        }
        let decoded = U::decode(bytes).map(Some);
        decoded.map_err(|error| Status::internal(error.to_string()))
    }
}

/// Takes the parts in `fields` off `left`; whether there were enough. What cannot be read
/// is left to the decoder, which reads no further than this.
fn count(mut bytes: Bytes, fields: &[Field], left: &mut usize) -> bool {
    while !fields.is_empty() && bytes.has_remaining() {
        let Ok((number, wire)) = decode_key(&mut bytes) else {
            return true;
        };
        let field = fields.iter().find(|field| field.number == number);
        if field.is_some_and(|field| field.is_part) {
            let Some(fewer) = left.checked_sub(1) else {
                return false;
            };
            *left = fewer;
        }
        let inside = field.map_or(&[][..], |field| field.inside);
        if inside.is_empty() || wire != WireType::LengthDelimited {
            if skip_field(wire, number, &mut bytes, DecodeContext::default()).is_err() {
                return true;
            }
            continue;
        }
        let length = decode_varint(&mut bytes)
            .ok()
            .and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= bytes.remaining()) else {
            return true;
        };
        if !count(bytes.split_to(length), inside, left) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<M: Message + Parts>(message: &M) -> usize {
        let mut left = MOST_PARTS;
        assert!(count(message.encode_to_vec().into(), M::FIELDS, &mut left));
        MOST_PARTS - left
    }

    fn record(headers: usize) -> v1::OutgoingRecord {
        v1::OutgoingRecord {
            topic: "orders".to_owned(),
            // Bytes that look like a message's own.
            value: Some(vec![0x12, 0x00, 0x12, 0x00].into()),
            headers: vec![v1::Header::default(); headers],
            ..v1::OutgoingRecord::default()
        }
    }

    #[test]
    fn everything_that_repeats_is_counted_wherever_it_stands() {
        let records = vec![record(0), record(3), record(1)];
        let batch = v1::PublishBatchRequest {
            records: records.clone(),
            ..v1::PublishBatchRequest::default()
        };
        assert_eq!(parts(&batch), 3 + 4);
        let records = v1::publish_request::Request::Records(v1::PublishRecords { records });
        let request = Some(records);
        assert_eq!(parts(&v1::PublishRequest { request }), 3 + 4);
        let settle = v1::Settle {
            sequence: 7,
            verdicts: vec![v1::Verdict::default(); 5],
        };
        let request = Some(v1::subscribe_request::Request::Settle(settle));
        assert_eq!(parts(&v1::SubscribeRequest { request }), 5);
        let extend = v1::Extend {
            extensions: vec![v1::Extension::default(); 6],
            ..v1::Extend::default()
        };
        let request = Some(v1::subscribe_request::Request::Extend(extend));
        assert_eq!(parts(&v1::SubscribeRequest { request }), 6);
        let open = v1::Open {
            resume: Some(v1::Resume {
                held: vec![v1::Held::default(); 4],
                ..v1::Resume::default()
            }),
            ad_hoc: Some(v1::AdHoc {
                topics: vec![String::new(); 2],
                ..v1::AdHoc::default()
            }),
            ..v1::Open::default()
        };
        let pull = v1::PullRequest {
            ad_hoc: open.ad_hoc.clone(),
            ..v1::PullRequest::default()
        };
        assert_eq!(parts(&pull), 2);
        let request = Some(v1::subscribe_request::Request::Open(open));
        assert_eq!(parts(&v1::SubscribeRequest { request }), 4 + 2);
        let settle = v1::SettleRequest {
            verdicts: vec![v1::Verdict::default(); 5],
            ..v1::SettleRequest::default()
        };
        assert_eq!(parts(&settle), 5);
        let extend = v1::ExtendRequest {
            extensions: vec![v1::Extension::default(); 6],
            ..v1::ExtendRequest::default()
        };
        assert_eq!(parts(&extend), 6);
    }

    #[test]
    fn too_many_parts_are_noticed_before_they_take_memory() {
        let fields = v1::PublishBatchRequest::FIELDS;
        let of = |count: usize| Bytes::from([0x12, 0x00].repeat(count));
        assert!(count(of(MOST_PARTS), fields, &mut { MOST_PARTS }));
        assert!(!count(of(MOST_PARTS + 1), fields, &mut { MOST_PARTS }));
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_decoder() {
        let fields = v1::PublishBatchRequest::FIELDS;
        for broken in [&[0x12, 0x7f][..], &[0x12], &[0xff; 12], &[0x13, 0x12, 0x00]] {
            let bytes = Bytes::copy_from_slice(broken);
            assert!(count(bytes.clone(), fields, &mut { MOST_PARTS }));
            assert!(
                v1::PublishBatchRequest::decode(bytes).is_err(),
                "{broken:?}"
            );
        }
    }
}
