//! An authority of certificates, made for one test.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// An authority, with its certificate in a file.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

/// A certificate with its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// Makes one; its files go into the folder and begin with the name.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Else the names of two authorities are the same, and only their keys differ.
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let authority = Self {
            issuer: Issuer::new(params, key),
            folder: folder.to_owned(),
            name: name.to_owned(),
        };
        fs::write(authority.certificate(), certificate.pem()).unwrap();
        authority
    }

    /// The file of its certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// Signs a certificate for these names and addresses, good until long after the test.
    pub(crate) fn signs(&self, names: &[&str]) -> Identity {
        self.signs_until(names, 2100)
    }

    /// Signs one that ends with the beginning of a year.
    pub(crate) fn signs_until(&self, names: &[&str], year: i32) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = format!("{}-{}-{year}", self.name, names.join("-"));
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let identity = Identity {
            certificate: self.folder.join(format!("{file}.pem")),
            key: self.folder.join(format!("{file}.key")),
        };
        fs::write(&identity.certificate, certificate.pem()).unwrap();
        fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }
}

impl Identity {
    /// A gateway's lines for it.
    pub(crate) fn lines(&self) -> String {
        format!(
            "listen.tls.certificate_file = {:?}\nlisten.tls.key_file = {:?}\n",
            self.certificate, self.key
        )
    }
}
