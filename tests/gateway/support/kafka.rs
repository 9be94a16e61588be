//! One Apache Kafka broker for the whole run, started by the first test that needs
//! it through `tests/kafka/broker.sh`, or an existing cluster that
//! `ACKGATE_TEST_BOOTSTRAP` names.
//!
//! Invariant: the broker's standard input is a pipe from this process and closes
//! with it, so the broker ends with this process however that ends.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock, mpsc},
    thread,
    time::Duration,
};

use super::free_port;

/// The first start also fetches the jars.
const START: Duration = Duration::from_secs(300);

static SHARED: OnceLock<Result<Kafka, String>> = OnceLock::new();

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Kafka {
    bootstrap: String,
    broker: Mutex<Option<Child>>,
}

/// Why there can be no Apache Kafka here; `None` if there can.
pub(crate) fn absent() -> Option<String> {
    if env::var_os("ACKGATE_TEST_BOOTSTRAP").is_some() {
        return None;
    }
    match script().arg("available").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("bash cannot be run: {error}")),
    }
}

/// Ends the shared broker, if one was started.
pub(crate) fn stop() {
    if let Some(Ok(kafka)) = SHARED.get() {
        kafka.end();
    }
}

impl Kafka {
    /// The run's cluster.
    pub(crate) fn shared() -> &'static Self {
        match SHARED.get_or_init(Self::start) {
            Ok(kafka) => kafka,
            Err(why) => panic!("no Apache Kafka: {why}"),
        }
    }

    /// A cluster for one test, which may stop it.
    pub(crate) fn own() -> &'static Self {
        let kafka = Self::launch().unwrap_or_else(|why| panic!("no Apache Kafka: {why}"));
        Box::leak(Box::new(kafka))
    }

    /// Ends the broker, if this process started it.
    pub(crate) fn end(&self) {
        if let Some(mut broker) = self.broker.lock().unwrap().take() {
            drop(broker.stdin.take());
            broker.wait().expect("a child can be waited for");
        }
    }

    /// Sends the broker's own process a signal by name, as `STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let broker = self.broker.lock().unwrap();
        let script = broker.as_ref().expect("a broker of this process").id();
        let listed = Command::new("ps")
            .args(["-o", "pid=,comm=", "--ppid", &script.to_string()])
            .output()
            .expect("ps can be run");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let java = listed
            .lines()
            .find_map(|line| line.trim().strip_suffix("java"))
            .unwrap_or_else(|| panic!("no java among the children: {listed}"));
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), java.trim()])
            .status()
            .expect("kill can be run");
        assert!(sent.success(), "the broker could not be sent {signal}");
    }

    /// `host:port` of the brokers.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Runs Kafka's own tool on this cluster and gives what it printed.
    pub(crate) fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let output = script()
            .args(["tool", name, "--bootstrap-server", &self.bootstrap])
            .args(arguments)
            .output()
            .expect("bash can be run");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "Kafka's {name} failed: {printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }

    /// What `consumer-groups --describe` says of a topic's partitions: committed
    /// offset (none where it prints `-`) and log end.
    pub(crate) fn describe(&self, group: &str, topic: &str) -> BTreeMap<i32, (Option<i64>, i64)> {
        let printed = self.tool("consumer-groups", &["--describe", "--group", group]);
        let mut partitions = BTreeMap::new();
        for line in printed.lines() {
            // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG ...
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [of, named, partition, current, end, ..] = fields[..]
                && of == group
                && named == topic
            {
                let partition = partition.parse().expect("a partition number");
                let end = end.parse().expect("a log end");
                partitions.insert(partition, (current.parse().ok(), end));
            }
        }
        partitions
    }

    fn start() -> Result<Self, String> {
        if let Ok(bootstrap) = env::var("ACKGATE_TEST_BOOTSTRAP") {
            return Ok(Self {
                bootstrap,
                broker: Mutex::new(None),
            });
        }
        Self::launch()
    }

    fn launch() -> Result<Self, String> {
        let mut child = script()
            .args(["run", "--until-stdin-closes"])
            .env("ACKGATE_KAFKA_PORT", free_port().to_string())
            .env("ACKGATE_KAFKA_CONTROLLER_PORT", free_port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("bash cannot be run: {error}"))?;
        let out = child.stdout.take().expect("stdout is piped");
        let (found, ready) = mpsc::sync_channel(1);
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("ready ") {
                    found.send(address.to_owned()).ok();
                }
            }
        });
        match ready.recv_timeout(START) {
            Ok(bootstrap) => Ok(Self {
                bootstrap,
                broker: Mutex::new(Some(child)),
            }),
            Err(_) => {
                drop(child.stdin.take());
                child.wait().map_err(|error| error.to_string())?;
                Err("the broker did not become ready; its last words are above".to_owned())
            }
        }
    }
}

fn script() -> Command {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "kafka", "broker.sh"]
        .iter()
        .collect();
    let mut command = Command::new("bash");
    command.arg(path);
    command
}
