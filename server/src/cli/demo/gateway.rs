//! The demo's gateway, in this process, on a real socket.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{DEAD_LETTERS, GROUP, ORDERS};
use crate::{
    admin::http::pages_at,
    cli::target::{CLUSTER, Target, configuration},
    config::{self, Config},
    gateway::Gateway,
};

/// Where `ackgate sub` looks if it is not told otherwise.
const USUAL: &str = "127.0.0.1:7654";

/// Where `ackgate lanes` looks if it is not told otherwise.
const USUAL_FOR_OPERATORS: &str = "127.0.0.1:7655";

/// Any free port.
const ANY: &str = "127.0.0.1:0";

/// A gateway that serves.
#[derive(Debug)]
pub(super) struct Running {
    /// As subscribers name it.
    pub(super) address: String,
    /// Where its pages are.
    pub(super) pages: String,
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
        let config = |address, operators| configured(bootstrap, address, operators);
        let gateway = match usual {
            true => match Gateway::build(config(USUAL, USUAL_FOR_OPERATORS)?).await {
                Ok(gateway) => gateway,
                // Most likely it is taken.
                Err(_) => Gateway::build(config(ANY, ANY)?).await?,
            },
            false => Gateway::build(config(ANY, ANY)?).await?,
        };
        let address = format!("http://{}", gateway.local_addr());
        let pages = gateway.admin_addr().map(pages_at).unwrap_or_default();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move { Ok(gateway.run(stopped).await?) });
        Ok(Self {
            address,
            pages,
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
pub(super) fn configured(bootstrap: &str, address: &str, operators: &str) -> Result<Config> {
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
        "listen = {{ address = \"{address}\" }}\nadmin = {{ address = \"{operators}\" }}\n\
         telemetry = {{ traces = {{ sample = 1.0 }} }}\n{}",
        configuration(tables)?
    );
    Ok(config::parse(&text, Path::new("demo"), [])?)
}
