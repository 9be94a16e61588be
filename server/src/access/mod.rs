//! Who may speak to the gateway: TLS, certificates of clients, and tokens.
//!
//! ```text
//! connection ─► handshake (if there is TLS) ─► HTTP/2 ─► guard (if there are tokens) ─► call
//! ```
//!
//! Boundary: knows files, connections and headers; nothing of records or subscriptions.
//! Invariants: neither a token nor a key is in a `Debug`, a log line or an error; what the
//! files say is known before a socket is opened.

mod certificate;
mod file;
mod guard;
mod handshake;
mod lifetime;
mod tokens;

pub(crate) use certificate::Mismatch;
pub(crate) use file::read as small_file;
pub(crate) use guard::{Guard, span};
pub(crate) use handshake::secured;
pub use {
    certificate::{Pem, Tls},
    tokens::{Principal, Tokens, token, written},
};
