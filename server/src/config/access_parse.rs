//! `listen.tls` and `listen.tokens_file`: the files are read here, so that what is wrong with
//! them is known before a socket is opened.

use std::path::PathBuf;

use super::{
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    value,
};
use crate::access::{Mismatch, Pem, Tls, Tokens};

/// Who may speak to the gateway.
pub(super) struct Access {
    pub(super) tls: Option<Tls>,
    pub(super) tokens: Option<Tokens>,
}

/// Reads both. `None`: something is wrong, and has been reported.
pub(super) fn access(reader: &mut Reader<'_>) -> Option<Access> {
    let tls = tls(reader);
    let tokens = read(reader, &options::LISTEN_TOKENS_FILE, |path| {
        Tokens::read(&path)
    });
    Some(Access {
        tls: tls?,
        tokens: tokens?,
    })
}

fn tls(reader: &mut Reader<'_>) -> Option<Option<Tls>> {
    let certificate = read(reader, &options::LISTEN_TLS_CERTIFICATE_FILE, |path| {
        Pem::certificates(&path)
    });
    let key = read(reader, &options::LISTEN_TLS_KEY_FILE, |path| {
        Pem::key(&path)
    });
    let client_ca = read(reader, &options::LISTEN_TLS_CLIENT_CA_FILE, |path| {
        Pem::certificates(&path)
    });
    let (certificate, key, client_ca) = (certificate?, key?, client_ca?);
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => {
            let why = "is missing beside listen.tls.certificate_file";
            reader.refuse(&options::LISTEN_TLS_KEY_FILE, "", why);
            return None;
        }
        (None, Some(_)) => {
            let why = "is missing beside listen.tls.key_file";
            reader.refuse(&options::LISTEN_TLS_CERTIFICATE_FILE, "", why);
            return None;
        }
        (None, None) if client_ca.is_some() => {
            let why = "needs listen.tls.certificate_file and listen.tls.key_file: certificates \
                       are shown in TLS only";
            reader.refuse(&options::LISTEN_TLS_CLIENT_CA_FILE, "", why);
            return None;
        }
        (None, None) => return Some(None),
    };
    // Pages in browsers may speak HTTP/1.1.
    let http1 = reader.read(&options::LISTEN_GRPC_WEB, "", value::flag)?;
    match Tls::new(certificate, key, client_ca, http1) {
        Ok(tls) => Some(Some(tls)),
        Err(mismatch) => {
            let (spec, why) = match mismatch {
                Mismatch::Certificate(why) => (&options::LISTEN_TLS_CERTIFICATE_FILE, why),
                Mismatch::Key(why) => (&options::LISTEN_TLS_KEY_FILE, why),
                Mismatch::ClientCa(why) => (&options::LISTEN_TLS_CLIENT_CA_FILE, why),
            };
            reader.refuse(spec, "", why);
            None
        }
    }
}

/// What the file of an option holds; `Some(None)`: the option is not given.
pub(super) fn read<T>(
    reader: &mut Reader<'_>,
    spec: &Spec,
    read: impl FnOnce(PathBuf) -> Result<T, String>,
) -> Option<Option<T>> {
    if reader.given(spec, "").is_none() {
        return (!reader.is_blocked(spec)).then_some(None);
    }
    let folder = reader.folder;
    let parse = |node: &Node, spec: &Spec| {
        let text = value::text(node, spec)?;
        if text.is_empty() {
            return Err(format!("must be {}", spec.expected()));
        }
        read(folder.join(text))
    };
    reader.read(spec, "", parse).map(Some)
}
