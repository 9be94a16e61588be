//! The course of a benchmark: set the stage, measure the parties in turn, clear up.

mod gateway;

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::{
    child::Child,
    cost::{Cost, Turn},
    job::Job,
    plan::Plan,
    program,
    progress::bar,
    report::{Figures, Outcome, Report, Run},
    role::{Role, SUBSCRIPTION},
    telemetry::Telemetry,
};
use crate::{
    broker::kafka::{
        bulk::{Acks, Bulk, Record},
        embedded::{self, Embedded},
        topics::Topics,
        witness::{Progress, Witness},
    },
    cli::target::{CLUSTER, Target, configuration},
    config::Cluster,
};

/// Time for one request to the cluster.
const REQUEST: Duration = Duration::from_secs(30);

/// Time for the gateway to listen.
const START: Duration = Duration::from_secs(30);

/// Name of the direct consumer.
const DIRECT: &str = "direct";

/// Everything that a run needs, and that must be cleared up after it.
#[derive(Debug)]
pub(super) struct Stage {
    plan: Plan,
    target: Target,
    cluster: Cluster,
    topic: String,
    /// Configurations and jobs, readable by this user only.
    folder: TempDir,
    program: PathBuf,
    /// Runs as long as the stage.
    _broker: Option<Embedded>,
}

impl Stage {
    /// Starts the embedded broker if there is to be one, and creates the topics.
    ///
    /// # Errors
    /// The cluster does not answer, or refuses the topics.
    pub(super) async fn set(plan: Plan) -> Result<Self> {
        let program = program()?;
        let folder = tempfile::Builder::new()
            .prefix("ackgate-bench-")
            .tempdir()?;
        let topic = format!("ackgate-bench-{:016x}", fastrand::u64(..));
        spawn_blocking(move || {
            let broker = plan
                .embedded
                .then(|| Embedded::start(embedded::Options::default()))
                .transpose()?;
            let target = broker
                .as_ref()
                .map_or_else(|| plan.target.clone(), |it| Target::of(&it.bootstrap()));
            let cluster = target.cluster()?.context("no cluster")?;
            let create = |name: &str, partitions| match &broker {
                Some(broker) => broker.create_topic(name, partitions),
                None => Topics::new(&cluster, REQUEST)?.create(name, partitions),
            };
            create(&topic, plan.partitions)?;
            create(&dead(&topic), 1)?;
            Ok(Self {
                plan,
                target,
                cluster,
                topic,
                folder,
                program,
                _broker: broker,
            })
        })
        .await?
    }

    /// Writes the records and measures the parties, in turn.
    ///
    /// # Errors
    /// A party failed, or its commits did not reach the log ends.
    pub(super) async fn measure(&self) -> Result<Outcome> {
        let ends = self.fill().await?;
        if self.plan.telemetry {
            return Ok(Outcome::Cost(self.telemetry(&ends).await?));
        }
        let mut runs = Vec::new();
        for turn in 1..=self.plan.repeat {
            let direct = self.direct(turn).await?;
            let gateway = self.gateway(turn, &ends, None).await?;
            runs.push(Run { direct, gateway });
        }
        Ok(Outcome::Report(Report::new(&self.plan, runs)))
    }

    async fn telemetry(&self, ends: &[Progress]) -> Result<Cost> {
        let mut runs = Vec::new();
        for turn in 1..=self.plan.repeat {
            runs.push(Turn {
                off: self.gateway(turn, ends, Some(Telemetry::Off)).await?,
                default: self.gateway(turn, ends, Some(Telemetry::Default)).await?,
                hundredth: self.gateway(turn, ends, Some(Telemetry::Hundredth)).await?,
            });
        }
        Ok(Cost::new(&self.plan, runs))
    }

    /// Deletes the topics; the broker in memory takes its own along.
    ///
    /// # Errors
    /// The cluster refuses.
    pub(super) async fn clear(self) -> Result<()> {
        if self.plan.embedded {
            return Ok(());
        }
        spawn_blocking(move || {
            let topics = Topics::new(&self.cluster, REQUEST)?;
            for turn in 1..=self.plan.repeat {
                for party in self.parties() {
                    // Groups of turns that did not happen are not there, and the others
                    // expire by themselves.
                    topics
                        .delete_group(&self.group(party, turn))
                        .unwrap_or_default();
                }
            }
            topics.delete(&self.topic)?;
            topics.delete(&dead(&self.topic))?;
            Ok(())
        })
        .await?
    }

    /// Names of all that read in a group of their own.
    fn parties(&self) -> Vec<&'static str> {
        if self.plan.telemetry {
            Telemetry::ALL.map(Telemetry::party).to_vec()
        } else {
            vec![DIRECT, gateway::PARTY]
        }
    }

    fn group(&self, party: &str, turn: u32) -> String {
        format!("{}-{party}-{turn}", self.topic)
    }

    /// Writes the records and checks that they are all there.
    pub(super) async fn fill(&self) -> Result<Vec<Progress>> {
        let (cluster, topic) = (self.cluster.clone(), self.topic.clone());
        let (records, size, partitions) = (
            self.plan.records,
            self.plan.size,
            i32::from(self.plan.partitions),
        );
        spawn_blocking(move || {
            let bar = bar("writing", records);
            fill(&cluster, &topic, records, size, partitions, &bar)?;
            bar.finish_and_clear();
            let lanes = Witness::new(&cluster, &topic)?.progress(&topic, REQUEST)?;
            let kept: i64 = lanes.iter().map(|lane| lane.end - lane.start).sum();
            if u64::try_from(kept) != Ok(records) {
                bail!("{records} records were written, but the topic holds {kept}");
            }
            Ok(lanes)
        })
        .await?
    }

    async fn direct(&self, turn: u32) -> Result<Figures> {
        let group = self.group(DIRECT, turn);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = self.write_config(&group, address, "")?;
        let mut child = self.start(Role::Direct, &group, config, address)?;
        let bar = bar(&format!("direct consumer {turn}"), self.plan.records);
        let measured = child
            .done(self.plan.deadline + START, |records| {
                bar.set_position(records)
            })
            .await?;
        bar.finish_and_clear();
        child.stop().await?;
        if measured.records < self.plan.records {
            bail!("the direct consumer read {} records", measured.records);
        }
        Ok(Figures::new(&measured, measured.seconds))
    }

    fn start(
        &self,
        role: Role,
        group: &str,
        config: PathBuf,
        address: SocketAddr,
    ) -> Result<Child> {
        let job = Job {
            config,
            address: format!("http://{address}"),
            records: self.plan.records,
            credit: self.plan.credit,
            deadline: self.plan.deadline,
        };
        let path = self.folder.path().join(format!("{group}.json"));
        std::fs::write(&path, serde_json::to_vec(&job)?)?;
        let path = path
            .to_str()
            .context("a temporary folder without a name in UTF-8")?;
        Child::start(
            role.name(),
            &self.program,
            &["bench", "--role", role.name(), "--job", path],
        )
    }

    /// Default settings, but for what a benchmark cannot do without, and `lines`.
    pub(super) fn write_config(
        &self,
        group: &str,
        address: SocketAddr,
        lines: &str,
    ) -> Result<PathBuf> {
        let topic = self.topic.as_str();
        let mut subscription = toml::toml! {
            cluster = "main"
            start = "earliest"
            order = "none"
        };
        subscription.insert("topics".to_owned(), vec![topic].into());
        subscription.insert("group".to_owned(), group.into());
        if self.plan.embedded {
            // Joining the embedded broker's groups can take as long as a session lasts.
            let consumer = toml::Table::from_iter([("session.timeout.ms".to_owned(), 6000.into())]);
            subscription.insert("consumer".to_owned(), consumer.into());
        }
        let dead_letter = toml::Table::from_iter([("topic".to_owned(), dead(topic).into())]);
        subscription.insert("dead_letter".to_owned(), dead_letter.into());
        let cluster = self.target.table().context("no cluster")?;
        let text = configuration([
            ("clusters", CLUSTER, cluster),
            ("subscriptions", SUBSCRIPTION, subscription),
        ])?;
        let path = self.folder.path().join(format!("{group}.toml"));
        let mut file = std::fs::File::create(&path)?;
        writeln!(
            file,
            "listen = {{ address = \"{address}\" }}\nlog = {{ filter = \"warn\" }}\n{lines}"
        )?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }
}

fn dead(topic: &str) -> String {
    format!("{topic}-dead")
}

/// Writes `records` values of `size` bytes, evenly over the partitions.
fn fill(
    cluster: &Cluster,
    topic: &str,
    records: u64,
    size: u32,
    partitions: i32,
    bar: &ProgressBar,
) -> Result<()> {
    let mut bulk = Bulk::new(cluster, Acks::Leader)?;
    // A new topic is there before its leaders are.
    bulk.partitions(topic, REQUEST)?;
    // Values differ and do not compress, and cost next to nothing to make: each is
    // a window into the same random bytes.
    let size = usize::try_from(size)?;
    let mut random = fastrand::Rng::with_seed(7);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(size + 4096)
        .collect();
    let mut turns = (0..partitions).cycle();
    for (window, _) in bytes.windows(size).cycle().zip(0..records) {
        let (partition, value) = (turns.next(), Some(window));
        bulk.send(&Record {
            topic,
            partition,
            value,
            ..Record::default()
        });
        bar.inc(1);
    }
    let count = bulk.finish(|_| {});
    if let Some(failure) = bulk.take_failures().into_iter().next() {
        bail!(
            "{} records could not be written: {}",
            count.failed,
            failure.error
        );
    }
    Ok(())
}
