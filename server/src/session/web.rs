//! What cannot be called by gRPC-Web.

use tonic::{Status, codegen::http::Extensions};

use super::status::Reason;

/// Among the extensions of a request that came by gRPC-Web.
#[derive(Clone, Copy, Debug)]
pub struct OverWeb;

/// Browsers send a request as a whole, so a stream of requests would end with its first
/// message: better a plain answer.
pub(super) fn refuse_stream(extensions: &Extensions, instead: &str) -> Result<(), Status> {
    match extensions.get::<OverWeb>() {
        None => Ok(()),
        Some(OverWeb) => Err(Reason::WebStream.status(format!(
            "gRPC-Web carries no streams of requests; call {instead} instead"
        ))),
    }
}
