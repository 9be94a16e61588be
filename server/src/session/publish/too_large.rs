//! Messages larger than the gateway reads. The gRPC library notices them itself, with a
//! status that has no reason.

use tonic::{Code, Status, codegen::http};

use crate::session::status::Reason;

/// The status instead of the library's.
pub(super) fn too_large() -> Status {
    Reason::MessageTooLarge.status(
        "a message is larger than 16 MiB, or has more than 200000 records and headers: send fewer \
         records at a time",
    )
}

/// Gives the answer to a call its reason if its request was too large. Streams are
/// answered before they are read, and pass as they are.
pub(crate) fn with_reason<B: Default>(response: http::Response<B>) -> http::Response<B> {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::OutOfRange => too_large().into_http(),
        Some(_) | None => response,
    }
}
