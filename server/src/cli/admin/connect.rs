//! The connection to a gateway's listener for operators.

use std::time::Duration;

use ackgate_proto::v1::admin_service_client::AdminServiceClient;
use anyhow::{Context as _, Result, anyhow};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint, Uri},
};

use crate::cli::Usage;

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 7655;

/// How long reaching the gateway may take.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// How long one call may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// A hundred thousand lanes and more.
const MOST_BYTES: usize = 64 << 20;

/// Where operators are served.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Place {
    /// Where the gateway serves operators: its admin.address (not its listen.address), on
    /// its own machine and without TLS. HOST[:PORT] or http://HOST[:PORT]; the port is 7655 if
    /// not given.
    #[arg(
        long,
        env = "ACKGATE_ADMIN_ADDRESS",
        default_value = "http://127.0.0.1:7655"
    )]
    address: String,
}

impl Place {
    /// Connects.
    ///
    /// # Errors
    /// The address is none, or nobody answers there.
    pub(super) async fn connect(&self) -> Result<AdminServiceClient<Channel>> {
        let channel = self.channel().await?;
        Ok(AdminServiceClient::new(channel).max_decoding_message_size(MOST_BYTES))
    }

    /// Connects, to speak plain HTTP.
    ///
    /// # Errors
    /// The address is none, or nobody answers there.
    pub(super) async fn channel(&self) -> Result<Channel> {
        let endpoint = Endpoint::from(uri(&self.address)?)
            .connect_timeout(CONNECTS_WITHIN)
            .timeout(ANSWERS_WITHIN);
        endpoint.connect().await.with_context(|| {
            format!(
                "no gateway serves operators at {}: is its admin.address set?",
                self.address
            )
        })
    }
}

/// The address as a URI with a port.
///
/// # Errors
/// It is none, or one of TLS.
fn uri(address: &str) -> Result<Uri, Usage> {
    let wrong = || {
        Usage(format!(
            "--address: {address:?} must be HOST[:PORT] or http://HOST[:PORT], with an IPv6 address \
             in brackets"
        ))
    };
    if address.starts_with("https://") {
        return Err(Usage(format!(
            "--address: {address:?}: operators are served without TLS, on the gateway's own machine: \
             name it with http://"
        )));
    }
    let host = address.strip_prefix("http://").unwrap_or(address);
    let uri = |host: &str| format!("http://{host}").parse::<Uri>().map_err(|_| wrong());
    let named = uri(host)?;
    match named.authority().map(|it| (it.as_str(), named.port_u16())) {
        Some((_, Some(1..))) => Ok(named),
        Some((host, None)) if !host.ends_with(':') => uri(&format!("{host}:{DEFAULT_PORT}")),
        Some(_) | None => Err(wrong()),
    }
}

/// A refusal in words.
pub(super) fn refused(status: &Status) -> anyhow::Error {
    match (status.code(), status.message()) {
        // What the listener for subscribers says.
        (Code::Unimplemented, _) => anyhow!(
            "nobody serves operators there: --address is the gateway's admin.address, not its \
             listen.address"
        ),
        // What comes of a port that speaks TLS, as only the other listener does.
        (_, message) if message.contains("h2 protocol error") => anyhow!(
            "what answers there does not speak HTTP/2 in plain text: --address is the gateway's \
             admin.address, not its listen.address"
        ),
        (code, "") => anyhow!("the gateway answered {code:?}"),
        (_, message) => anyhow!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_7655_where_none_is_named() {
        let named = |address: &str| uri(address).map(|it| it.to_string());
        for (address, expected) in [
            ("localhost", "http://localhost:7655/"),
            ("http://localhost", "http://localhost:7655/"),
            ("[::1]", "http://[::1]:7655/"),
            ("127.0.0.1:1", "http://127.0.0.1:1/"),
        ] {
            assert_eq!(named(address).unwrap(), expected);
        }
        for wrong in ["", "::1", "a:0", "a:", "a:99999", "ftp://a", "a b"] {
            let Usage(why) = uri(wrong).expect_err(wrong);
            assert!(why.contains(&format!("{wrong:?} must be HOST")), "{why}");
        }
        assert!(uri("https://a").unwrap_err().0.contains("without TLS"));
    }

    #[test]
    fn refusals_always_say_something() {
        let text = |status: Status| refused(&status).to_string();
        assert!(text(Status::unimplemented("")).contains("admin.address"));
        assert_eq!(
            text(Status::cancelled("")),
            "the gateway answered Cancelled"
        );
        assert_eq!(text(Status::not_found("no such lane")), "no such lane");
        let tls = "h2 protocol error: http2 error";
        assert!(text(Status::unknown(tls)).contains("admin.address"));
    }
}
