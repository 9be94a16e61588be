//! The demo's gateway, in this process, on a real socket.

use std::{io::ErrorKind, path::Path};

use anyhow::{Context as _, Result, anyhow};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{DEAD_LETTERS, GROUP, ORDERS};
use crate::{
    cli::target::{CLUSTER, Target, configuration},
    config::{self, Config},
    gateway::{self, Gateway},
};

/// A gateway that serves.
#[derive(Debug)]
pub(super) struct Running {
    /// As subscribers name it.
    pub(super) address: String,
    pub(super) task: JoinHandle<Result<()>>,
    stop: CancellationToken,
}

impl Running {
    /// Starts a gateway for the broker at `bootstrap`, on loopback; port 0 is any that is
    /// free.
    ///
    /// # Errors
    /// The port is taken, or it cannot be built.
    pub(super) async fn start(bootstrap: &str, port: u16) -> Result<Self> {
        let config = configured(bootstrap, &format!("127.0.0.1:{port}"))?;
        let gateway = match Gateway::build(config).await {
            Ok(gateway) => gateway,
            Err(gateway::Error::Listen {
                address, source, ..
            }) if source.kind() == ErrorKind::AddrInUse => return Err(taken(&address.to_string())),
            Err(error) => return Err(error.into()),
        };
        let address = format!("http://{}", gateway.local_addr());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move { Ok(gateway.run(stopped).await?) });
        Ok(Self {
            address,
            task,
            stop,
        })
    }

    /// Stops it gracefully.
    ///
    /// # Errors
    /// It failed while it ran.
    pub(super) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.task.await.context("the gateway")?
    }
}

/// Others are to find it where they are told to look: another port would be a surprise.
fn taken(address: &str) -> anyhow::Error {
    anyhow!(
        "{address} is taken, perhaps by a gateway or another demo: end that one, or choose another \
         port with --port"
    )
}

/// Default settings, but for shorter pauses: there are people watching.
pub(super) fn configured(bootstrap: &str, address: &str) -> Result<Config> {
    let mut subscription = toml::toml! {
        cluster = "main"
        start = "earliest"
        order = "none"
        backoff = { initial = "500ms", max = "5s" }
        commit = { interval = "250ms" }
    };
    subscription.insert("topics".to_owned(), vec![ORDERS].into());
    subscription.insert("group".to_owned(), GROUP.into());
    // Joining the embedded broker's groups can take as long as a session lasts.
    let consumer = toml::Table::from_iter([("session.timeout.ms".to_owned(), 6000.into())]);
    subscription.insert("consumer".to_owned(), consumer.into());
    let dead_letter = toml::Table::from_iter([("topic".to_owned(), DEAD_LETTERS.into())]);
    subscription.insert("dead_letter".to_owned(), dead_letter.into());
    let mut cluster = Target::of(bootstrap).table().context("no cluster")?;
    let publish = toml::Table::from_iter([("topics".to_owned(), vec![ORDERS].into())]);
    cluster.insert("publish".to_owned(), publish.into());
    let tables = [
        ("clusters", CLUSTER, cluster),
        ("subscriptions", ORDERS, subscription),
    ];
    let text = format!(
        "listen = {{ address = \"{address}\" }}\n{}",
        configuration(tables)?
    );
    Ok(config::parse(&text, Path::new("demo"), [])?)
}
