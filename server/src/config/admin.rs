//! Where operators' tools connect, and the reading of it.

use std::net::SocketAddr;

use super::{options, reader::Reader, value};

/// The listener for operators' tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// A loopback address; port 0 is any free one.
    pub address: SocketAddr,
}

/// Reads it; nothing given is nothing served.
#[expect(clippy::option_option, reason = "none given, and a wrong one")]
pub(super) fn admin(reader: &mut Reader<'_>) -> Option<Option<Admin>> {
    if reader.given(&options::ADMIN_ADDRESS, "").is_none() {
        return Some(None);
    }
    let address = reader.read(&options::ADMIN_ADDRESS, "", value::socket)?;
    if !address.ip().is_loopback() {
        reader.refuse(
            &options::ADMIN_ADDRESS,
            "",
            "must be a loopback address, as 127.0.0.1:7655: whoever reaches it may change how \
             lanes go on, without a name or a password",
        );
        return None;
    }
    let listen = reader.read(&options::LISTEN_ADDRESS, "", value::socket);
    if address.port() != 0 && listen == Some(address) {
        let why = "is listen.address too: operators' tools have a listener of their own";
        reader.refuse(&options::ADMIN_ADDRESS, "", why);
        return None;
    }
    Some(Some(Admin { address }))
}
