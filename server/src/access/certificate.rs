//! PEM files become what handshakes need.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use rustls::{
    InconsistentKeys, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use super::{file, lifetime::Lifetime};

/// What a PEM file of TLS holds, read and checked by itself.
pub struct Pem<T> {
    path: PathBuf,
    holds: T,
}

impl<T> fmt::Debug for Pem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pem").field(&self.path).finish()
    }
}

impl Pem<Vec<CertificateDer<'static>>> {
    /// Reads certificates, at least one: a chain with the gateway's own first, or the
    /// authorities that sign those of clients.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate, or one that is none; in words that
    /// name it.
    pub fn certificates(path: &Path) -> Result<Self, String> {
        let bytes = file::read(path)?;
        let shown = path.display();
        let holds: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
            .collect::<Result<_, _>>()
            .map_err(|_| format!("{shown} is not PEM"))?;
        if holds.is_empty() {
            return Err(format!(
                "{shown} holds no certificate in PEM, which begins with \
                 -----BEGIN CERTIFICATE-----"
            ));
        }
        Lifetime::of(&holds)
            .map_err(|number| format!("certificate {number} of {shown} is none"))?;
        let path = path.to_owned();
        Ok(Self { path, holds })
    }
}

impl Pem<PrivateKeyDer<'static>> {
    /// Reads a private key: PKCS#8, PKCS#1 or SEC1, without a passphrase.
    ///
    /// # Errors
    /// The file cannot be read or holds no such key, in words that name it and tell nothing
    /// of what is in it.
    pub fn key(path: &Path) -> Result<Self, String> {
        let bytes = file::read(path)?;
        let shown = path.display();
        let has = |mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
        if has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED") {
            return Err(format!(
                "{shown} holds a key with a passphrase: give it without one"
            ));
        }
        let holds = PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|_| format!("{shown} holds no private key in PEM"))?;
        let path = path.to_owned();
        Ok(Self { path, holds })
    }
}

/// TLS of the listener, as its files say.
#[derive(Clone)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    lifetime: Lifetime,
    handshakes: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("client_ca", &self.client_ca)
            .finish_non_exhaustive()
    }
}

/// Which of the files does not go with the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Certificate(String),
    Key(String),
    ClientCa(String),
}

impl Tls {
    /// Puts files together. With `client_ca`, clients must show a certificate that one of
    /// its authorities has signed; with `http1`, clients may also choose HTTP/1.1.
    ///
    /// # Errors
    /// The key is not the certificate's, or an authority cannot be one.
    pub(crate) fn new(
        certificate: Pem<Vec<CertificateDer<'static>>>,
        key: Pem<PrivateKeyDer<'static>>,
        client_ca: Option<Pem<Vec<CertificateDer<'static>>>>,
        http1: bool,
    ) -> Result<Self, Mismatch> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Mismatch::Certificate(error.to_string()))?;
        let client_ca_path = client_ca.as_ref().map(|pem| pem.path.clone());
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = authorities(&pem).map_err(Mismatch::ClientCa)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(|error| {
                        Mismatch::ClientCa(format!("{} is refused: {error}", pem.path.display()))
                    })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let of_certificate =
            |why: &dyn fmt::Display| format!("{} is refused: {why}", certificate.path.display());
        let lifetime = Lifetime::of(&certificate.holds)
            .map_err(|_| Mismatch::Certificate(of_certificate(&"it holds none")))?;
        let mut handshakes = builder
            .with_single_cert(certificate.holds.clone(), key.holds)
            .map_err(|error| {
                if error == InconsistentKeys::KeyMismatch.into() {
                    return Mismatch::Key(format!(
                        "{} is not the key of the first certificate in {}",
                        key.path.display(),
                        certificate.path.display()
                    ));
                }
                if let rustls::Error::InvalidCertificate(error) = &error {
                    return Mismatch::Certificate(of_certificate(&format!("{error:?}")));
                }
                Mismatch::Key(format!("{} is refused: {error}", key.path.display()))
            })?;
        handshakes.alpn_protocols.push(b"h2".to_vec());
        if http1 {
            handshakes.alpn_protocols.push(b"http/1.1".to_vec());
        }
        Ok(Self {
            certificate: certificate.path,
            key: key.path,
            client_ca: client_ca_path,
            lifetime,
            handshakes: Arc::new(handshakes),
        })
    }

    /// What the next handshake goes by. Asked anew for each: certificates that change while
    /// the gateway runs would come in here.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.handshakes)
    }

    /// Whether clients must show a certificate.
    #[must_use]
    pub const fn wants_client_certificates(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Whole days until the first certificate of the chain ends; below 0: it has.
    #[must_use]
    pub fn days_left(&self) -> i64 {
        self.lifetime.days_left(SystemTime::now())
    }

    /// What an operator should know about the certificate, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let warning = self.lifetime.warning(SystemTime::now())?;
        Some(format!(
            "the certificate in {} {warning}",
            self.certificate.display()
        ))
    }

    /// The files by the names of their options, without those that are not given.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        [
            ("tls.certificate_file", Some(self.certificate.as_path())),
            ("tls.key_file", Some(self.key.as_path())),
            ("tls.client_ca_file", self.client_ca.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
    }
}

fn authorities(pem: &Pem<Vec<CertificateDer<'static>>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (number, certificate) in (1..).zip(&pem.holds) {
        roots.add(certificate.clone()).map_err(|error| {
            format!(
                "certificate {number} of {} cannot be an authority: {error}",
                pem.path.display()
            )
        })?;
    }
    Ok(roots)
}
