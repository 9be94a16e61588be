//! Files of certificates, keys and tokens, and who may be let in without them.

use std::{fs, path::Path};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::{Config, LEAST, Problem, parse};
use crate::access::written;

/// A folder with the files of a gateway.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(TempDir::new().expect("a folder"));
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["gateway".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        files.write("gateway.pem", &certificate.pem());
        files.write("gateway.key", &key.serialize_pem());
        files.write(
            "other.key",
            &KeyPair::generate().expect("a key").serialize_pem(),
        );
        files.write("tokens", &written("me", "token").expect("a line"));
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
    }

    fn load(&self, listen: &str) -> Result<Config, Vec<Problem>> {
        let text = format!("{listen}\n{LEAST}");
        parse(&text, &self.0.path().join("ackgate.toml"), [])
            .map_err(|problems| problems.list().to_vec())
    }

    /// The only problem, without the folder.
    fn problem(&self, listen: &str) -> String {
        let problems = self.load(listen).expect_err(listen);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0]
            .to_string()
            .replace(&format!("{}/", self.0.path().display()), "")
    }

    fn warnings(&self, listen: &str) -> Vec<String> {
        self.load(listen).expect(listen).listen.warnings()
    }
}

const TLS: &str =
    "listen.tls = { certificate_file = \"gateway.pem\", key_file = \"gateway.key\" }\n";
const TOKENS: &str = "listen.tokens_file = \"tokens\"\n";

#[test]
fn files_are_found_beside_the_configuration() {
    let files = Files::new();
    let config = files.load(&format!("{TLS}{TOKENS}")).expect("all is well");
    assert!(
        !config
            .listen
            .tls
            .as_ref()
            .expect("TLS")
            .wants_client_certificates()
    );
    assert_eq!(config.listen.tokens.as_ref().expect("tokens").count(), 1);
    let shown = format!("{:?} {config:?}", config.effective());
    assert!(
        shown.contains("gateway.pem") && shown.contains("gateway.key"),
        "{shown}"
    );
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    let with_ca = TLS.replace(" }", ", client_ca_file = \"gateway.pem\" }");
    let config = files.load(&with_ca).expect("all is well");
    assert!(config.listen.tls.expect("TLS").wants_client_certificates());
    // In the environment too, and from anywhere.
    let path = files.0.path().join("tokens").display().to_string();
    let variable = ("ACKGATE__LISTEN__TOKENS_FILE".to_owned(), path);
    let config = parse(LEAST, Path::new("/etc/ackgate.toml"), [variable]).expect("all is well");
    assert!(config.listen.tokens.is_some());
}

/// Certificate, key, and what is said of them.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "none.pem",
        "gateway.key",
        "certificate_file = \"none.pem\": none.pem cannot be read: No such file",
    ),
    (
        "garbage",
        "gateway.key",
        "certificate_file = \"garbage\": garbage holds no certificate in PEM",
    ),
    (
        "gateway.key",
        "gateway.key",
        "gateway.key holds no certificate in PEM",
    ),
    (
        "cut.pem",
        "gateway.key",
        "certificate_file = \"cut.pem\": cut.pem is not PEM",
    ),
    (
        "hollow.pem",
        "gateway.key",
        "certificate 1 of hollow.pem is none",
    ),
    ("large", "gateway.key", "large has more than 1 MiB"),
    (
        "gateway.pem",
        "none.key",
        "key_file = \"none.key\": none.key cannot be read: No such file",
    ),
    (
        "gateway.pem",
        "gateway.pem",
        "key_file = \"gateway.pem\": gateway.pem holds no private key in PEM",
    ),
    (
        "gateway.pem",
        "encrypted.key",
        "encrypted.key holds a key with a passphrase",
    ),
    (
        "gateway.pem",
        "other.key",
        "key_file = \"other.key\": other.key is not the key of the first certificate in gateway.pem",
    ),
    ("gateway.pem", ".", " cannot be read: Is a directory"),
    ("", "gateway.key", "must be a path"),
];

#[test]
fn a_wrong_file_is_named_with_what_is_wrong() {
    let files = Files::new();
    files.write("garbage", "no PEM at all");
    files.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    files.write(
        "hollow.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let passphrase =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    files.write("encrypted.key", passphrase);
    files.write("large", &"#".repeat((1 << 20) + 1));
    for (certificate, key, expected) in WRONG {
        let listen =
            format!("listen.tls = {{ certificate_file = {certificate:?}, key_file = {key:?} }}");
        let problem = files.problem(&listen);
        assert!(problem.contains(expected), "{expected} in {problem}");
        assert!(!problem.contains("AAAA"), "{problem}");
    }
    let with_ca = TLS.replace(" }", ", client_ca_file = \"garbage\" }");
    assert!(
        files
            .problem(&with_ca)
            .contains("client_ca_file = \"garbage\": garbage holds no")
    );
    files.write("tokens", "me:hunter2");
    let problem = files.problem(TOKENS);
    assert!(
        problem.contains("listen.tokens_file = \"tokens\": tokens: line 1 must be"),
        "{problem}"
    );
    assert!(!problem.contains("hunter2"), "{problem}");
}

#[test]
fn files_of_tls_need_each_other() {
    let files = Files::new();
    for (listen, expected) in [
        (
            "listen.tls.certificate_file = \"gateway.pem\"",
            "listen.tls.key_file: is missing",
        ),
        (
            "listen.tls.key_file = \"gateway.key\"",
            "listen.tls.certificate_file: is missing",
        ),
        (
            "listen.tls.client_ca_file = \"gateway.pem\"",
            "needs listen.tls.certificate_file",
        ),
    ] {
        let problem = files.problem(listen);
        assert!(problem.contains(expected), "{expected} in {problem}");
    }
}

#[test]
fn either_of_tls_and_tokens_opens_the_address_with_what_there_is_to_say() {
    let files = Files::new();
    let open = "listen.address = \"0.0.0.0:7654\"\n";
    let expect = |listen: &str, expected: &[&str]| {
        let warnings = files.warnings(listen);
        assert_eq!(warnings.len(), expected.len(), "{listen}: {warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{expected} in {warning}");
        }
    };
    expect("", &[]);
    expect(TOKENS, &[]);
    expect(TLS, &[]);
    expect(&format!("{open}{TLS}{TOKENS}"), &[]);
    expect(
        &format!("{open}{TOKENS}"),
        &["tokens and no TLS: tokens and records travel in the clear"],
    );
    let anybody = "anybody who reaches it can read and settle the records";
    expect(&format!("{open}{TLS}"), &[anybody]);
    expect(&format!("{open}listen.insecure = true"), &[anybody]);
    let with_ca = TLS.replace(" }", ", client_ca_file = \"gateway.pem\" }");
    expect(&format!("{open}{with_ca}"), &[]);
    expect(
        &format!("{open}listen.insecure = true\n{TLS}{TOKENS}"),
        &["listen.insecure = true does nothing"],
    );
}

#[test]
fn a_certificate_that_ends_soon_is_warned_about() {
    let files = Files::new();
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["gateway".to_owned()]).expect("a name");
    params.not_after = date_time_ymd(2020, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate");
    files.write("gateway.pem", &certificate.pem());
    files.write("gateway.key", &key.serialize_pem());
    let warnings = files.warnings(TLS);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].ends_with("gateway.pem has ended: clients refuse it"),
        "{warnings:?}"
    );
}
