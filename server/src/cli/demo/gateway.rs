//! The demo's gateway, in this process, on a real socket.

use std::{io::ErrorKind, path::Path};

use anyhow::{Context as _, Result, anyhow};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{DEAD_LETTERS, GROUP, ORDERS, PORT};
use crate::{
    admin::http::pages_at,
    cli::target::{CLUSTER, Target, configuration},
    config::{self, Config},
    gateway::{self, Gateway},
};

/// Where `ackgate lanes` looks if it is not told otherwise.
const OPERATORS: u16 = 7655;

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
    /// Starts a gateway for the broker at `bootstrap`, on loopback; port 0 is any that is
    /// free. Operators are served at their usual port if it is at its own.
    ///
    /// # Errors
    /// A port is taken, or it cannot be built.
    pub(super) async fn start(bootstrap: &str, port: u16) -> Result<Self> {
        // Whoever chooses another port has a gateway at the usual ones.
        let operators = if port == PORT { OPERATORS } else { 0 };
        let on = |port: u16| format!("127.0.0.1:{port}");
        let config = configured(bootstrap, &on(port), &on(operators))?;
        let gateway = match Gateway::build(config).await {
            Ok(gateway) => gateway,
            Err(gateway::Error::Listen {
                address, source, ..
            }) if source.kind() == ErrorKind::AddrInUse => return Err(taken(&address.to_string())),
            Err(error) => return Err(error.into()),
        };
        let address = format!("http://{}", gateway.local_addr());
        let pages = gateway.admin_addr().map(|it| pages_at(it, true));
        let pages = pages.unwrap_or_default();
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

/// Others are to find it where they are told to look: another port would be a surprise.
fn taken(address: &str) -> anyhow::Error {
    anyhow!(
        "{address} is taken, perhaps by a gateway or another demo: end that one, or choose another \
         port with --port"
    )
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
