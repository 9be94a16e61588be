//! How a command gets to a gateway that does not let everybody in.

use std::{fs::File, io::Read as _, path::PathBuf};

use ackgate_client::{Builder, Error, PublisherBuilder, Tls};

use super::{Usage, in_full};
use crate::access;

/// Larger than any token.
const TOKEN_BYTES: u64 = 64 * 1024;

/// Heading of the options.
const HEADING: &str = "TLS and tokens";

/// TLS and the token of a call to a gateway.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Access {
    /// Connects over TLS, and trusts the authorities of this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", env = "ACKGATE_TLS_CA", help_heading = HEADING)]
    tls_ca: Option<PathBuf>,

    /// The certificate to show the gateway, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = HEADING)]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = HEADING)]
    tls_key: Option<PathBuf>,

    /// The name that the gateway's certificate must have instead of the address's host.
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    tls_server_name: Option<String>,

    /// A file that holds the token by which the gateway knows who calls.
    #[arg(long, value_name = "FILE", env = "ACKGATE_TOKEN_FILE", help_heading = HEADING)]
    token_file: Option<PathBuf>,
}

impl Access {
    /// The same subscriber with these.
    ///
    /// # Errors
    /// The token's file cannot be read.
    pub(super) fn subscriber(&self, mut builder: Builder) -> Result<Builder, Usage> {
        if let Some(tls) = self.tls() {
            builder = builder.tls(tls);
        }
        if let Some(token) = self.token()? {
            builder = builder.token(token);
        }
        Ok(builder)
    }

    /// The same publisher with these.
    ///
    /// # Errors
    /// The token's file cannot be read.
    pub(super) fn publisher(
        &self,
        mut builder: PublisherBuilder,
    ) -> Result<PublisherBuilder, Usage> {
        if let Some(tls) = self.tls() {
            builder = builder.tls(tls);
        }
        if let Some(token) = self.token()? {
            builder = builder.token(token);
        }
        Ok(builder)
    }

    /// TLS, if any option asks for it.
    fn tls(&self) -> Option<Tls> {
        let mut tls = Tls::new();
        if let Some(path) = &self.tls_ca {
            tls = tls.ca_file(path);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.identity_files(certificate, key);
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name);
        }
        let asked =
            self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_server_name.is_some();
        asked.then_some(tls)
    }

    fn token(&self) -> Result<Option<String>, Usage> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let shown = path.display();
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(TOKEN_BYTES).read_to_string(&mut text))
            .map_err(|error| Usage(format!("--token-file {shown} cannot be read: {error}")))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(Usage(format!("--token-file {shown} is empty")));
        }
        // What could not be in a tokens file is none; the text may be another secret.
        access::written("it", token)
            .map_err(|why| Usage(format!("--token-file {shown} holds no token: {why}")))?;
        Ok(Some(token.to_owned()))
    }

    /// A client's error as a command tells it: with the options that may help, or as wrong
    /// usage if an option was refused.
    pub(super) fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        let found = error.chain().find_map(|it| it.downcast_ref::<Error>());
        match found {
            Some(Error::Option { option, problem }) => {
                let option = match *option {
                    "address" => "--address",
                    "tls" => "--tls-ca, --tls-cert, --tls-key or --tls-server-name",
                    "token" => "--token-file",
                    other => other,
                };
                Usage(format!("{option}: {problem}")).into()
            }
            Some(found) => match self.hint(found) {
                Some(hint) => anyhow::anyhow!("{}; {hint}", in_full(&error)),
                None => error,
            },
            None => error,
        }
    }

    /// Which options may help.
    pub(super) fn hint(&self, error: &Error) -> Option<String> {
        if let Error::Tls { detail } = error {
            return tls_hint(detail).map(str::to_owned);
        }
        match (error.reason()?, &self.token_file) {
            ("TOKEN_MISSING", _) => {
                Some("give it with --token-file FILE, or ACKGATE_TOKEN_FILE".to_owned())
            }
            ("TOKEN_UNKNOWN", Some(path)) => Some(format!(
                "the token of --token-file {} has no line in the gateway's listen.tokens_file, or \
                 the gateway has not been started since",
                path.display()
            )),
            _ => None,
        }
    }
}

/// Which options may help where TLS does not come about, by the words of the client.
fn tls_hint(detail: &str) -> Option<&'static str> {
    [
        (
            " speaks TLS: ",
            "give --address https://HOST:PORT, and with --tls-ca FILE whom to trust",
        ),
        (
            "UnknownIssuer",
            "--tls-ca FILE names the authority to trust, in PEM",
        ),
        (
            "CertificateRequired",
            "show one with --tls-cert FILE and --tls-key FILE",
        ),
        (
            "certificate not valid for name",
            "--tls-server-name NAME says which name it has",
        ),
    ]
    .into_iter()
    .find(|(words, _)| detail.contains(words))
    .map(|(_, hint)| hint)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use ackgate_client::Code;

    use super::*;

    fn with(path: &Path) -> Access {
        Access {
            token_file: Some(path.to_owned()),
            ..Access::default()
        }
    }

    fn refused(reason: &str) -> Error {
        Error::Status {
            code: Code::Unauthenticated,
            reason: reason.to_owned(),
            message: "no".to_owned(),
            retry_after: None,
        }
    }

    #[test]
    fn file_without_a_token_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let access = with(file.path());
        let told = |text: &str| {
            fs::write(file.path(), text).unwrap();
            access.token().map_err(|Usage(why)| why)
        };
        assert_eq!(told("  secret\n"), Ok(Some("secret".to_owned())));
        let shown = file.path().display();
        let empty = format!("--token-file {shown} is empty");
        assert_eq!(told(" \n"), Err(empty));
        let spaces = told("one two").unwrap_err();
        assert!(
            spaces.starts_with(&format!("--token-file {shown} holds no token")),
            "{spaces}"
        );
        assert!(!spaces.contains("one"), "{spaces}");
        let none = with(Path::new("/no/such")).token().unwrap_err().0;
        assert!(
            none.starts_with("--token-file /no/such cannot be read"),
            "{none}"
        );
    }

    #[test]
    fn refusals_name_the_option_that_helps() {
        let access = with(Path::new("billing.token"));
        let told = |error: Error| {
            let error = access.explained(anyhow::Error::new(error).context("cannot publish"));
            in_full(&error)
        };
        let missing = told(refused("TOKEN_MISSING"));
        assert!(
            missing.starts_with("cannot publish: the gateway answered"),
            "{missing}"
        );
        assert!(missing.contains("--token-file FILE"), "{missing}");
        assert!(told(refused("TOKEN_UNKNOWN")).contains("--token-file billing.token"));
        assert!(!told(refused("UNKNOWN_SUBSCRIPTION")).contains("--token"));
        let tls = |detail: &str| {
            told(Error::Tls {
                detail: detail.to_owned(),
            })
        };
        assert!(tls("http://a:1 speaks TLS: its address").contains("--address https://"));
        assert!(tls("invalid peer certificate: UnknownIssuer").contains("--tls-ca"));
        assert!(tls("received fatal alert: CertificateRequired").contains("--tls-cert"));
        assert!(!tls("received fatal alert: CertificateExpired").contains("--"));
    }

    #[test]
    fn refused_options_are_wrong_usage() {
        let access = Access::default();
        let error = access.explained(
            Error::Option {
                option: "address",
                problem: "is none".to_owned(),
            }
            .into(),
        );
        assert!(error.is::<Usage>());
        assert_eq!(error.to_string(), "--address: is none");
    }
}
