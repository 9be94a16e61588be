//! `ackgate pub` with input that never ends: its pace, its memory, and how it is stopped.

use std::process::{Child, Command, Stdio};

use super::{ended, gateway, publish_from};
use crate::support::{Case, Stage, Topic, cases, eventually};

pub(super) fn cases() -> Vec<Case> {
    cases![
        embedded: pace_is_kept_and_a_stop_is_counted_truthfully,
            endless_input_takes_bounded_memory;
    ]
}

/// Makes lines without end for as long as it lives.
struct Endless(Child);

impl Endless {
    fn start() -> (Self, Stdio) {
        let mut yes = Command::new("yes")
            .arg("a line of some length")
            .stdout(Stdio::piped())
            .spawn()
            .expect("yes can be run");
        let out = yes.stdout.take().expect("stdout is piped");
        (Self(yes), out.into())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        self.0.kill().ok();
        self.0.wait().expect("a child can be waited for");
    }
}

/// Waits until at least so many records are written.
async fn are_written(stage: &Stage, topic: &Topic, least: usize) {
    eventually("some are written", async || {
        match stage.broker.read(&topic.name).await.len() {
            written if written >= least => Ok(()),
            written => Err(written.to_string()),
        }
    })
    .await;
}

async fn pace_is_kept_and_a_stop_is_counted_truthfully(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let gateway = gateway(&stage, &[]).await;
    let (_endless, lines) = Endless::start();
    let process = publish_from(&gateway, &["--rate", "200", &topic.name], lines);
    are_written(&stage, &topic, 50).await;
    process.signal("INT");
    let (code, summary, said) = ended(process).await;
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(summary["interrupted"], true);
    let unwritten = (&summary["failed"], &summary["unknown"]);
    assert_eq!(unwritten, (&0.into(), &0.into()), "{summary}");
    let written = summary["written"].as_u64().unwrap();
    let seconds = summary["seconds"].as_f64().unwrap();
    // The pace may make good what it has lost in the last tenth of a second.
    assert!(
        written as f64 <= 200.0 * (seconds + 0.1) + 1.0,
        "{written} in {seconds} s"
    );
    stage.holds(&topic, usize::try_from(written).unwrap()).await;
}

async fn endless_input_takes_bounded_memory(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let (_endless, lines) = Endless::start();
    let process = publish_from(&gateway, &["--retry-unanswered", &topic.name], lines);
    are_written(&stage, &topic, 1).await;
    // Nobody takes anything for a while, and the input does not wait for that.
    gateway.terminate();
    gateway.end().await;
    eventually("the command has noticed", async || {
        if process.err().contains("trying again") {
            Ok(())
        } else {
            Err(process.err())
        }
    })
    .await;
    let memory = process.memory();
    assert!(memory < 200 << 20, "{memory} bytes");
    process.signal("INT");
    let (code, summary, _) = ended(process).await;
    assert_eq!(code, Some(1));
    assert_eq!(summary["interrupted"], true);
    let written = summary["written"].as_u64().unwrap();
    let unknown = summary["unknown"].as_u64().unwrap();
    let there = stage.broker.read(&topic.name).await.len() as u64;
    assert!(
        (written..=written + unknown).contains(&there),
        "{there}: {summary}"
    );
}
