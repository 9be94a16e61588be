//! The gateway's part of a turn: start it, let a subscriber take everything, and see the
//! commits reach the log ends.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use tokio::{net::TcpStream, task::spawn_blocking, time::sleep};

use super::{REQUEST, START, Stage};
use crate::{
    broker::kafka::witness::{Progress, Witness},
    cli::bench::{
        child::Child,
        progress::bar,
        report::Figures,
        role::Role,
        telemetry::{Telemetry, scrape},
    },
};

/// How much later than the last verdict the commits may reach the log ends: the
/// gateway commits each second, and a retry may be needed.
const COMMIT: Duration = Duration::from_secs(15);

/// Who looks at a group's commits, and at which partitions of which topic.
pub(in crate::cli::bench) type Onlooker = (Witness, String, Vec<i32>);

/// Between two looks at the committed positions.
const LOOK: Duration = Duration::from_millis(5);

/// Between two tries to connect to the gateway.
const KNOCK: Duration = Duration::from_millis(20);

/// Name of a gateway that tells of itself what it does by itself.
pub(super) const PARTY: &str = "gateway";

impl Stage {
    /// Measures a gateway; without `telemetry` its settings are left alone.
    pub(super) async fn gateway(
        &self,
        turn: u32,
        ends: &[Progress],
        telemetry: Option<Telemetry>,
    ) -> Result<Figures> {
        let party = telemetry.map_or(PARTY, Telemetry::party);
        let group = self.group(party, turn);
        let [address, admin] = free_addresses()?;
        let lines = telemetry.map(|it| it.lines(admin)).unwrap_or_default();
        let config = self.write_config(&group, address, &lines)?;
        let path = config
            .to_str()
            .context("a temporary folder without a name in UTF-8")?;
        let mut gateway = Child::start("gateway", &self.program, &["serve", "--config", path])?;
        listening(&mut gateway, address).await?;
        let is_scraped = telemetry.is_some_and(Telemetry::is_scraped);
        if is_scraped {
            listening(&mut gateway, admin).await?;
        }
        let onlooker = self.onlooker(&group, ends).await?;
        let mut subscriber = self.start(Role::Subscriber, &group, config, address)?;
        let name = format!("{party} {turn}");
        let mut scrapes = 0;
        let figures = tokio::select! {
            figures = self.course(&mut subscriber, &name, onlooker, ends) => figures,
            error = scrape(admin, &mut scrapes), if is_scraped => Err(error),
        };
        if figures.is_err() {
            // If the gateway is gone, that is why.
            gateway.check().await?;
        }
        let mut figures = figures?;
        figures.scrapes = is_scraped.then_some(scrapes);
        figures.cpu_seconds = gateway.cpu_seconds();
        subscriber.stop().await?;
        gateway.stop().await?;
        Ok(figures)
    }

    /// From the subscriber's first record until the commits are there; what the gateway
    /// itself used is not told.
    async fn course(
        &self,
        subscriber: &mut Child,
        name: &str,
        onlooker: Onlooker,
        ends: &[Progress],
    ) -> Result<Figures> {
        let bar = bar(name, self.plan.records);
        let mut first = None;
        let measured = subscriber
            .done(self.plan.deadline + START, |records| {
                first.get_or_insert_with(Instant::now);
                bar.set_position(records);
            })
            .await;
        bar.finish_and_clear();
        let measured = measured?;
        Self::await_commits(onlooker, ends, COMMIT).await?;
        let first = first.unwrap_or_else(Instant::now);
        let mut figures = Figures::new(&measured, first.elapsed().as_secs_f64());
        figures.subscriber_cpu_seconds = figures.cpu_seconds.take();
        Ok(figures)
    }

    /// A connection for looking at the group's commits, made before the clock runs.
    pub(in crate::cli::bench) async fn onlooker(
        &self,
        group: &str,
        ends: &[Progress],
    ) -> Result<Onlooker> {
        let (cluster, topic, group) = (self.cluster.clone(), self.topic.clone(), group.to_owned());
        let partitions: Vec<i32> = ends.iter().map(|lane| lane.partition).collect();
        spawn_blocking(move || {
            let witness = Witness::new(&cluster, &group)?;
            witness.committed(&topic, &partitions, REQUEST)?;
            Ok((witness, topic, partitions))
        })
        .await?
    }

    /// Waits until the group's committed positions are the log ends.
    pub(in crate::cli::bench) async fn await_commits(
        onlooker: Onlooker,
        ends: &[Progress],
        deadline: Duration,
    ) -> Result<()> {
        let until = Instant::now() + deadline;
        let mut asked = onlooker;
        loop {
            let (committed, back) = spawn_blocking(move || {
                let (witness, topic, partitions) = &asked;
                let committed = witness.committed(topic, partitions, REQUEST);
                committed.map(|committed| (committed, asked))
            })
            .await??;
            asked = back;
            let behind = ends
                .iter()
                .filter(|lane| lane.start < lane.end)
                .find(|lane| {
                    committed
                        .get(&lane.partition)
                        .is_none_or(|at| *at < lane.end)
                });
            match behind {
                None => return Ok(()),
                Some(lane) if Instant::now() >= until => bail!(
                    "every record was acked, but partition {} is committed up to {:?} of {}",
                    lane.partition,
                    committed.get(&lane.partition),
                    lane.end
                ),
                Some(_) => sleep(LOOK).await,
            }
        }
    }
}

/// Two addresses on which nobody listens yet.
fn free_addresses() -> Result<[SocketAddr; 2]> {
    let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // While the first is still taken: never the same.
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok([one.local_addr()?, other.local_addr()?])
}

/// Waits until somebody listens.
async fn listening(gateway: &mut Child, address: SocketAddr) -> Result<()> {
    let until = Instant::now() + START;
    while TcpStream::connect(address).await.is_err() {
        gateway.check().await?;
        if Instant::now() >= until {
            bail!("the gateway does not listen on {address}");
        }
        sleep(KNOCK).await;
    }
    Ok(())
}
