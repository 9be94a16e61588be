//! How a command gets to a gateway that does not let everybody in.

use std::{fs::File, io::Read as _, path::PathBuf};

use ackgate_client::{Builder, PublisherBuilder, Tls};

use super::Usage;

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
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(TOKEN_BYTES).read_to_string(&mut text))
            .map_err(|error| {
                Usage(format!(
                    "--token-file {} cannot be read: {error}",
                    path.display()
                ))
            })?;
        Ok(Some(text.trim().to_owned()))
    }
}
