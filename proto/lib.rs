//! The ackgate protocol, package `ackgate.v1`: messages, gRPC stubs and the
//! descriptor set for reflection, all generated from the `.proto` files beside
//! this one, and the hand-written types [`Frame`] and [`Pulled`].

mod bounded;
mod frame;
mod pulled;

pub use bounded::{BoundedCodec, BoundedDecoder, Field, MOST_PARTS, Parts};
pub use frame::{EncodedBatch, Frame, RECORD_TAG};
pub use pulled::Pulled;

/// Messages and client stubs of package `ackgate.v1`.
#[allow(
    missing_docs,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::too_many_lines,
    clippy::wildcard_enum_match_arm,
    clippy::allow_attributes_without_reason,
    clippy::or_fun_call,
    reason = "generated code"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/ackgate.v1.rs"));
}

/// Server stubs of package `ackgate.v1`; `Subscribe` sends [`Frame`]s, and `Pull`
/// answers with [`Pulled`].
#[allow(
    missing_docs,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::too_many_lines,
    clippy::wildcard_enum_match_arm,
    clippy::allow_attributes_without_reason,
    clippy::or_fun_call,
    reason = "generated code"
)]
pub mod server {
    include!(concat!(env!("OUT_DIR"), "/server/ackgate.v1.rs"));
}

/// Version of the protocol within v1, as `Opened` tells it. Each release that adds
/// something raises it by one.
pub const PROTOCOL_VERSION: u32 = 1;

/// The encoded `google.protobuf.FileDescriptorSet` of the protocol.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ackgate_v1.bin"));
