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

use crate::{Error, plain::SpeaksTls};

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
/// either side, or a peer that does not speak TLS, or does where this side does not.
pub(crate) fn problem(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(speaks) = error.downcast_ref::<SpeaksTls>() {
            return Some(speaks.to_string());
        }
        let io = error.downcast_ref::<std::io::Error>();
        // An I/O error hides what it is made from as its source's source.
        let inner = io.and_then(std::io::Error::get_ref);
        let typed = match inner {
            Some(inner) => inner.downcast_ref::<rustls::Error>(),
            None => error.downcast_ref::<rustls::Error>(),
        };
        if let Some(error) = typed {
            return lasting(error).then(|| in_words(error));
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

fn in_words(error: &rustls::Error) -> String {
    let text = error.to_string();
    let plain = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
    if *error != plain {
        return text;
    }
    format!(
        "it does not speak TLS: its address must begin with http://, and no TLS be set up ({text})"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(tls: &Tls, address: &str) -> Option<String> {
        let made = over(&address.parse().unwrap(), Some(tls), Duration::from_secs(1));
        made.err().map(|error| error.to_string())
    }

    #[test]
    fn wrong_files_are_options_that_are_wrong() {
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (tls, expected) in [
            (
                Tls::new().ca_file("/no/such.pem"),
                "/no/such.pem cannot be read: No such file",
            ),
            (
                Tls::new().ca_pem("no PEM"),
                "the authorities has no certificate in PEM",
            ),
            (
                Tls::new().ca_pem("-----BEGIN CERTIFICATE-----\n"),
                "the authorities is not PEM",
            ),
            (
                Tls::new().ca_pem(certificate).identity_pem(key, key),
                "the certificate has no certificate",
            ),
            (
                Tls::new()
                    .ca_pem(certificate)
                    .identity_pem(certificate, certificate),
                "the private key has no private key",
            ),
            (
                Tls::new()
                    .ca_pem(certificate)
                    .identity_pem(certificate, key),
                "option tls: ",
            ),
            (
                Tls::new().ca_pem(certificate).server_name("not a name"),
                "option tls: ",
            ),
        ] {
            let problem = problem_of(&tls, "https://localhost:1").unwrap_or_default();
            assert!(problem.starts_with("option tls: "), "{problem}");
            assert!(problem.contains(expected), "{expected} in {problem}");
            assert!(
                !format!("{problem} {tls:?}").contains("AAAA"),
                "{problem} {tls:?}"
            );
        }
    }

    #[test]
    fn tls_is_used_where_it_is_given_or_the_address_says_so() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let given = Tls::new().ca_pem(certificate);
        for (address, tls, expected) in [
            ("localhost:1", None, "http"),
            ("http://localhost:1", None, "http"),
            ("localhost:1", Some(&given), "https"),
            ("http://localhost:1/", Some(&given), "https"),
            ("https://localhost:1", Some(&given), "https"),
        ] {
            let endpoint = over(&address.parse().unwrap(), tls, Duration::from_secs(1)).unwrap();
            assert_eq!(endpoint.uri().scheme_str(), Some(expected), "{address}");
            assert_eq!(endpoint.uri().port_u16(), Some(1), "{address}");
        }
    }

    #[test]
    fn only_what_would_be_so_again_is_a_problem_of_tls() {
        let told = |error: rustls::Error| {
            let io = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            problem(&io)
        };
        let unknown = rustls::CertificateError::UnknownIssuer;
        assert!(told(unknown.into()).is_some_and(|it| it.contains("UnknownIssuer")));
        let alert = rustls::Error::AlertReceived;
        assert!(told(alert(AlertDescription::CertificateRequired)).is_some());
        assert_eq!(told(alert(AlertDescription::InternalError)), None);
        assert_eq!(told(rustls::Error::DecryptError), None);
        // As it comes out of HTTP/2: as words.
        let words = |text: &str| problem(&std::io::Error::other(text.to_owned()));
        let told = words("broken: received fatal alert: CertificateExpired");
        assert_eq!(
            told.as_deref(),
            Some("received fatal alert: CertificateExpired")
        );
        assert_eq!(words("broken: received fatal alert: InternalError"), None);
        assert_eq!(words("connection reset"), None);
    }

    #[test]
    fn side_without_tls_is_told_what_its_address_must_begin_with() {
        let plain = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
        let io = std::io::Error::new(std::io::ErrorKind::InvalidData, plain);
        assert!(problem(&io).is_some_and(|it| it.contains("begin with http://")));
        let address = "http://gateway:7654".to_owned();
        let told = problem(&SpeaksTls { address });
        let expected = "http://gateway:7654 speaks TLS: its address must begin with https://";
        assert!(
            told.as_ref().is_some_and(|it| it.starts_with(expected)),
            "{told:?}"
        );
    }
}
