//! The demo's gateway, in this process, on a real socket.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{DEAD_LETTERS, GROUP, ORDERS};
use crate::{
    cli::target::{CLUSTER, Target, configuration},
    config::{self, Config},
    gateway::Gateway,
};

/// Where `ackgate sub` looks if it is not told otherwise.
const USUAL: &str = "127.0.0.1:7654";

/// Any free port.
const ANY: &str = "127.0.0.1:0";

/// A gateway that serves.
#[derive(Debug)]
pub(super) struct Running {
    /// As subscribers name it.
    pub(super) address: String,
    pub(super) task: JoinHandle<Result<()>>,
    stop: CancellationToken,
}

impl Running {
    /// Starts a gateway for the broker at `bootstrap`: at the usual address if
    /// others are to find it and it is free.
    ///
    /// # Errors
    /// It cannot be built.
    pub(super) async fn start(bootstrap: &str, usual: bool) -> Result<Self> {
        let config = |address| configured(bootstrap, address);
        let gateway = match usual {
            true => match Gateway::build(config(USUAL)?).await {
                Ok(gateway) => gateway,
                // Most likely it is taken.
                Err(_) => Gateway::build(config(ANY)?).await?,
            },
            false => Gateway::build(config(ANY)?).await?,
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
