//! The connection to a gateway's listener for operators.

use std::time::Duration;

use ackgate_proto::v1::admin_service_client::AdminServiceClient;
use anyhow::{Context as _, Result, anyhow};
use tonic::{
    Status,
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
        let address = match self.address.contains("://") {
            true => self.address.clone(),
            false => format!("http://{}", self.address),
        };
        let endpoint = Endpoint::from_shared(address)
            .with_context(|| format!("{:?} is no address", self.address))?
            .connect_timeout(CONNECTS_WITHIN)
            .timeout(ANSWERS_WITHIN);
        let channel = endpoint.connect().await.with_context(|| {
            format!(
                "no gateway serves operators at {}: is its admin.address set?",
                self.address
            )
        })?;
        Ok(AdminServiceClient::new(channel).max_decoding_message_size(MOST_BYTES))
    }
}

/// A refusal in words.
pub(super) fn refused(status: &Status) -> anyhow::Error {
    anyhow!("{}", status.message())
}
