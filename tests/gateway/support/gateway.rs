//! An `ackgate serve` process and the configuration it is given.

use std::{
    fmt::Write as _,
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, ExitStatus},
    time::Duration,
};

use tokio::net::TcpStream;

use super::{Process, Stage, Stream, Topic, ackgate, eventually};

/// A subscription as the configuration file has it.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    name: String,
    /// Keys with values as TOML writes them; dots make tables.
    settings: Vec<(String, String)>,
}

impl Subscription {
    /// Reads a topic from its beginning, with delays short enough for tests.
    pub(crate) fn new(name: &str, topic: &str, group: &str) -> Self {
        let subscription = Self {
            name: name.to_owned(),
            settings: Vec::new(),
        };
        subscription
            .set("cluster", "\"main\"")
            .set("topics", &format!("[\"{topic}\"]"))
            .set("group", &format!("\"{group}\""))
            .set("start", "\"earliest\"")
            .set("order", "\"none\"")
            .set("on_reject", "\"drop\"")
            .backoff(Duration::from_millis(50))
            // The embedded broker may let a join wait until a session ends.
            .consumer_property("session.timeout.ms", "6000")
    }

    /// Sets one key, replacing what it had.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(name, _)| name != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same under another name.
    pub(crate) fn renamed(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    /// Orders each key.
    pub(crate) fn in_key_order(self) -> Self {
        self.set("order", "\"key\"")
    }

    /// Orders each lane.
    pub(crate) fn in_lane_order(self) -> Self {
        self.set("order", "\"lane\"")
    }

    /// Sets the time for a verdict.
    pub(crate) fn ack_deadline(self, deadline: Duration) -> Self {
        self.set("ack_deadline", &written(deadline))
    }

    /// Sets the attempts after which a record is given up.
    pub(crate) fn max_attempts(self, attempts: u32) -> Self {
        self.set("max_attempts", &attempts.to_string())
    }

    /// Sets the first and the longest delay between attempts.
    pub(crate) fn backoff(self, delay: Duration) -> Self {
        self.set("backoff.initial", &written(delay))
            .set("backoff.max", &written(delay))
    }

    /// Sends rejected and exhausted records to a topic, trying again soon.
    pub(crate) fn dead_letter(self, topic: &Topic) -> Self {
        self.set("on_reject", "\"dead_letter\"")
            .set("dead_letter.topic", &format!("\"{}\"", topic.name))
            .set(
                "dead_letter.backoff.initial",
                &written(Duration::from_millis(100)),
            )
            .set(
                "dead_letter.backoff.max",
                &written(Duration::from_millis(500)),
            )
    }

    /// Sets how long the group is kept without subscribers.
    pub(crate) fn linger(self, linger: Duration) -> Self {
        self.set("linger", &written(linger))
    }

    /// Sets how long a revoke waits for verdicts.
    pub(crate) fn revoke_drain(self, drain: Duration) -> Self {
        self.set("revoke_drain", &written(drain))
    }

    /// Passes a property through to the Kafka consumer.
    pub(crate) fn consumer_property(self, name: &str, value: &str) -> Self {
        self.set(&format!("consumer.\"{name}\""), &format!("\"{value}\""))
    }

    fn write(&self, file: &mut String) {
        for (key, value) in &self.settings {
            writeln!(file, "subscriptions.{}.{key} = {value}", self.name).unwrap();
        }
    }
}

/// A running gateway. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    config: PathBuf,
    process: Process,
}

impl Gateway {
    /// Starts a gateway for the subscriptions on the stage's broker.
    pub(crate) async fn start(stage: &Stage, subscriptions: &[Subscription]) -> Self {
        Self::start_with(stage, subscriptions, "").await
    }

    /// Starts a gateway with more lines at the top of its file.
    pub(crate) async fn start_with(
        stage: &Stage,
        subscriptions: &[Subscription],
        top: &str,
    ) -> Self {
        let mut gateway = Self::launch(stage, subscriptions, top, None);
        gateway.listens().await;
        gateway
    }

    /// Starts a gateway that ends itself at a point of `server/src/fail.rs`, as `name` or,
    /// at a later pass, `name:n`; or only stops there, as `name:stop`.
    pub(crate) async fn start_to_end_at(
        stage: &Stage,
        subscriptions: &[Subscription],
        top: &str,
        point: &str,
    ) -> Self {
        let mut gateway = Self::launch(stage, subscriptions, top, Some(point));
        gateway.listens().await;
        // Else: cargo build -p ackgate --features fail-points
        gateway.logs("fail points are compiled in").await;
        gateway
    }

    /// Waits until it has died at its fail point.
    pub(crate) async fn dies(&mut self) {
        let status = self.process.end().await;
        assert_eq!(status.signal(), Some(9), "it ended with {status}");
    }

    fn launch(
        stage: &Stage,
        subscriptions: &[Subscription],
        top: &str,
        point: Option<&str>,
    ) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let file = render(address, &stage.broker.bootstrap(), subscriptions, top);
        let config = stage
            .folder()
            .join(format!("gateway-{}.toml", address.port()));
        fs::write(&config, file).expect("the configuration can be written");
        let process = serve(&config, point);
        Self {
            address,
            config,
            process,
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it and starts it again with the same configuration.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.process.kill();
        self.process = serve(&self.config, None);
        self.listens().await;
    }

    /// Starts it again with the same configuration after it has ended, without a fail
    /// point.
    pub(crate) async fn restart(&mut self) {
        self.process.end().await;
        self.process = serve(&self.config, None);
        self.listens().await;
    }

    /// Sends it a signal by name, as `STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        self.process.end().await
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.process.memory()
    }

    /// How many sockets it has open.
    pub(crate) fn sockets(&self) -> usize {
        self.process.sockets()
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        self.process.err()
    }

    /// Whoever read its log has gone: its pipes break.
    pub(crate) fn stop_reading_log(&self) {
        self.process.stop_reading();
    }

    /// Waits until its log has a text.
    pub(crate) async fn logs(&self, text: &str) {
        eventually(&format!("the gateway logs {text:?}"), async || {
            if self.log().contains(text) {
                Ok(())
            } else {
                Err("it has not".to_owned())
            }
        })
        .await;
    }

    /// Opens a stream on the subscription `orders` with plenty of credit.
    pub(crate) async fn open(&self) -> Stream {
        Stream::open(self.address, Stream::hello("orders")).await
    }

    async fn listens(&mut self) {
        let address = self.address;
        eventually("the gateway listens", async || {
            if let Some(status) = self.process.ended() {
                panic!("the gateway ended with {status}:\n{}", self.process.err());
            }
            TcpStream::connect(address)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
    }
}

fn serve(config: &PathBuf, point: Option<&str>) -> Process {
    let mut command = Command::new(ackgate());
    command.arg("serve").arg("--config").arg(config);
    if let Some(point) = point {
        command.env("ACKGATE_FAIL_POINT", point);
    }
    Process::start("ackgate serve", &mut command)
}

/// The configuration file.
pub(crate) fn render(
    address: SocketAddr,
    bootstrap: &str,
    subscriptions: &[Subscription],
    top: &str,
) -> String {
    let mut file = format!(
        "{top}\nlisten.address = \"{address}\"\nclusters.main.address = \"kafka://{bootstrap}\"\n"
    );
    if !top.contains("log.filter") {
        file.push_str("log.filter = \"info\"\n");
    }
    for subscription in subscriptions {
        subscription.write(&mut file);
    }
    file
}

/// A duration as the configuration writes it.
fn written(duration: Duration) -> String {
    format!("\"{}ms\"", duration.as_millis())
}

/// A port that nothing listens on now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a listener has an address")
        .port()
}
