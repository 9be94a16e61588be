//! The connection to a gateway's listener for operators.

use std::time::Duration;

use ackgate_proto::v1::admin_service_client::AdminServiceClient;
use anyhow::{Context as _, Result, anyhow};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// How long reaching the gateway may take.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// How long one call may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// A hundred thousand lanes and more.
const MOST_BYTES: usize = 64 << 20;

/// Where operators are served.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Place {
    /// Where the gateway serves operators: its admin.address.
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
        let address = match self.address.contains("://") {
            true => self.address.clone(),
            false => format!("http://{}", self.address),
        };
        let endpoint = Endpoint::from_shared(address)
            .with_context(|| format!("{:?} is no address", self.address))?
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

/// A refusal in words.
pub(super) fn refused(status: &Status) -> anyhow::Error {
    match (status.code(), status.message()) {
        // What the listener for subscribers says.
        (Code::Unimplemented, _) => anyhow!(
            "nobody serves operators there: --address is the gateway's admin.address, not its \
             listen.address"
        ),
        (code, "") => anyhow!("the gateway answered {code:?}"),
        (_, message) => anyhow!("{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_always_say_something() {
        let text = |status: Status| refused(&status).to_string();
        assert!(text(Status::unimplemented("")).contains("admin.address"));
        assert_eq!(
            text(Status::cancelled("")),
            "the gateway answered Cancelled"
        );
        assert_eq!(text(Status::not_found("no such lane")), "no such lane");
    }
}
