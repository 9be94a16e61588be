//! [`Tls`]: whom to trust on the way to the gateway, and who to say one is.

use std::{
    error::Error as StdError,
    fmt, fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustls::{
    AlertDescription, InvalidMessage,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tonic::{
    codegen::http::uri::PathAndQuery,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Uri},
};

use crate::Error;

/// Larger than any file that is meant.
const FILE_BYTES: u64 = 1 << 20;

/// TLS on the connection to the gateway; given to a builder by its `tls`.
///
/// Without anything set, the gateway's certificate must be one that the system trusts, for
/// the host of the address. Files are read when the builder connects, and not again.
///
/// ```
/// use ackgate_client::{Subscriber, Tls};
///
/// let tls = Tls::new()
///     .ca_file("/etc/ackgate/ca.pem")
///     .identity_files("/etc/ackgate/billing.pem", "/etc/ackgate/billing.key");
/// let orders = Subscriber::builder("https://gateway.internal:7654", "orders").tls(tls);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is given to a builder"]
pub struct Tls {
    ca: Option<Pem>,
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
}

/// PEM text, or where it is.
#[derive(Clone)]
enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("***"),
            Self::File(path) => path.fmt(f),
        }
    }
}

impl Tls {
    /// Trusts whom the system trusts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities, in PEM, and none of the system's.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(Pem::Text(pem.into()));
        self
    }

    /// As [`ca_pem`](Self::ca_pem), from a file of at most 1 MiB.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(Pem::File(path.into()));
        self
    }

    /// Shows this certificate (with those between it and its authority, if there are any),
    /// in PEM, and proves it with its private key, in PEM without a passphrase.
    pub fn identity_pem(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((Pem::Text(certificate.into()), Pem::Text(key.into())));
        self
    }

    /// As [`identity_pem`](Self::identity_pem), from files of at most 1 MiB.
    pub fn identity_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.identity = Some((Pem::File(certificate.into()), Pem::File(key.into())));
        self
    }

    /// Expects the gateway's certificate to be for this name instead of the address's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// What the transport is told.
    fn config(&self, timeout: Duration) -> Result<ClientTlsConfig, Error> {
        let mut config = ClientTlsConfig::new().timeout(timeout);
        config = match &self.ca {
            None => config.with_native_roots(),
            Some(pem) => {
                let (text, name) = pem.read("the authorities")?;
                certificates(&text, &name)?;
                config.ca_certificate(Certificate::from_pem(text))
            }
        };
        if let Some((certificate, key)) = &self.identity {
            let (certificate, name) = certificate.read("the certificate")?;
            certificates(&certificate, &name)?;
            let (key, name) = key.read("the private key")?;
            PrivateKeyDer::from_pem_slice(&key)
                .map_err(|_| wrong(format!("{name} has no private key in PEM")))?;
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

impl Pem {
    /// The text, and its name for messages.
    fn read(&self, what: &str) -> Result<(Vec<u8>, String), Error> {
        match self {
            Self::Text(text) => Ok((text.clone(), what.to_owned())),
            Self::File(path) => {
                let name = path.display().to_string();
                Ok((read(path)?, name))
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes));
    let shown = path.display();
    read.map_err(|error| wrong(format!("{shown} cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(wrong(format!("{shown} has more than 1 MiB")));
    }
    Ok(bytes)
}

fn certificates(text: &[u8], name: &str) -> Result<(), Error> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(text) {
        certificate.map_err(|_| wrong(format!("{name} is not PEM")))?;
        count += 1;
    }
    match count {
        0 => Err(wrong(format!("{name} has no certificate in PEM"))),
        _ => Ok(()),
    }
}

fn wrong(problem: String) -> Error {
    Error::Option {
        option: "tls",
        problem,
    }
}

/// Sets up TLS where there is any: `tls` is given, or the address says so. `timeout` is for
/// the handshake.
pub(crate) fn over(uri: &Uri, tls: Option<&Tls>, timeout: Duration) -> Result<Endpoint, Error> {
    let is_https = uri.scheme_str() == Some("https");
    let plain = Tls::new();
    let tls = match tls {
        None if !is_https => return Ok(with_scheme(uri, "http")?.into()),
        None => &plain,
        Some(tls) => tls,
    };
    let uri = with_scheme(uri, "https")?;
    Endpoint::from(uri)
        .tls_config(tls.config(timeout)?)
        .map_err(|error| wrong(crate::error::chain(&error)))
}

/// The same address under a scheme; `host:port` alone is one too.
fn with_scheme(uri: &Uri, scheme: &str) -> Result<Uri, Error> {
    let mut parts = uri.clone().into_parts();
    parts.scheme = scheme.parse().ok();
    parts
        .path_and_query
        .get_or_insert(PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map_err(|error| Error::Option {
        option: "address",
        problem: error.to_string(),
    })
}

/// What was wrong with TLS, if it was something that would be so again: the certificate of
/// either side, or a peer that does not speak TLS.
pub(crate) fn problem(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        // An I/O error hides what it is made from as its source's source.
        let inner = io.and_then(std::io::Error::get_ref);
        let typed = match inner {
            Some(inner) => inner.downcast_ref::<rustls::Error>(),
            None => error.downcast_ref::<rustls::Error>(),
        };
        if let Some(error) = typed {
            return lasting(error).then(|| error.to_string());
        }
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    // HTTP/2 keeps only the text of what broke its connection.
    let text = crate::error::chain(error);
    let at = text.find(ALERT)?;
    let alert = text.get(at..)?;
    LASTING
        .iter()
        .find(|lasting| {
            alert
                .get(ALERT.len()..)
                .is_some_and(|it| it.starts_with(&format!("{lasting:?}")))
        })
        .map(|_| alert.to_owned())
}

/// How an alert of the peer begins in words.
const ALERT: &str = "received fatal alert: ";

/// Alerts about this side's certificate, or the lack of one.
const LASTING: [AlertDescription; 9] = [
    AlertDescription::NoCertificate,
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::AccessDenied,
    AlertDescription::CertificateRequired,
];

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the library's errors grow; what is not known may pass"
)]
fn lasting(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::NoCertificatesPresented
        | rustls::Error::UnsupportedNameType
        | rustls::Error::NoApplicationProtocol
        | rustls::Error::PeerIncompatible(_)
        | rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => true,
        rustls::Error::AlertReceived(alert) => LASTING.contains(alert),
        _ => false,
    }
}
