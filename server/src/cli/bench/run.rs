//! The course of a benchmark: set the stage, measure both parties in turn, clear up.

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;
use tokio::{net::TcpStream, task::spawn_blocking, time::sleep};

use super::{
    child::Child,
    job::Job,
    plan::Plan,
    program,
    progress::bar,
    report::{Figures, Report, Run},
    role::{Role, SUBSCRIPTION},
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

/// How much later than the last verdict the commits may reach the log ends: the
/// gateway commits each second, and a retry may be needed.
const COMMIT: Duration = Duration::from_secs(15);

/// Who looks at a group's commits, and at which partitions of which topic.
pub(super) type Onlooker = (Witness, String, Vec<i32>);

/// Between two looks at the committed positions.
const LOOK: Duration = Duration::from_millis(5);

/// Between two tries to connect to the gateway.
const KNOCK: Duration = Duration::from_millis(20);

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

    /// Writes the records and measures both parties, in turn.
    ///
    /// # Errors
    /// A party failed, or its commits did not reach the log ends.
    pub(super) async fn measure(&self) -> Result<Report> {
        let ends = self.fill().await?;
        let mut runs = Vec::new();
        for turn in 1..=self.plan.repeat {
            let direct = self.direct(turn).await?;
            let gateway = self.gateway(turn, &ends).await?;
            runs.push(Run { direct, gateway });
        }
        Ok(Report::new(&self.plan, runs))
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
                for party in ["direct", "gateway"] {
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
        let group = self.group("direct", turn);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut child = self.start(Role::Direct, &group, address)?;
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

    async fn gateway(&self, turn: u32, ends: &[Progress]) -> Result<Figures> {
        let group = self.group("gateway", turn);
        let address = free_address()?;
        let config = self.write_config(&group, address)?;
        let config = config
            .to_str()
            .context("a temporary folder without a name in UTF-8")?;
        let mut gateway = Child::start("gateway", &self.program, &["serve", "--config", config])?;
        listening(&mut gateway, address).await?;
        let onlooker = self.onlooker(&group, ends).await?;
        let mut subscriber = self.start(Role::Subscriber, &group, address)?;
        let bar = bar(&format!("gateway {turn}"), self.plan.records);
        let mut first = None;
        let measured = subscriber
            .done(self.plan.deadline + START, |records| {
                first.get_or_insert_with(Instant::now);
                bar.set_position(records);
            })
            .await;
        bar.finish_and_clear();
        if measured.is_err() {
            // If the gateway is gone, that is why.
            gateway.check().await?;
        }
        let measured = measured?;
        Self::await_commits(onlooker, ends, COMMIT).await?;
        let first = first.unwrap_or_else(Instant::now);
        let mut figures = Figures::new(&measured, first.elapsed().as_secs_f64());
        figures.subscriber_cpu_seconds = measured.cpu_seconds;
        figures.cpu_seconds = gateway.cpu_seconds();
        subscriber.stop().await?;
        gateway.stop().await?;
        Ok(figures)
    }

    fn start(&self, role: Role, group: &str, address: SocketAddr) -> Result<Child> {
        let job = Job {
            config: self.write_config(group, address)?,
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

    /// Default settings, but for what a benchmark cannot do without.
    pub(super) fn write_config(&self, group: &str, address: SocketAddr) -> Result<PathBuf> {
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
            "listen = {{ address = \"{address}\" }}\nlog = {{ filter = \"warn\" }}"
        )?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// A connection for looking at the group's commits, made before the clock runs.
    pub(super) async fn onlooker(&self, group: &str, ends: &[Progress]) -> Result<Onlooker> {
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
    pub(super) async fn await_commits(
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

/// An address on which nobody listens yet.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
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
