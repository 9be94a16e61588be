//! `ackgate check`: is the configuration right, and does Kafka have what it needs?
//!
//! Boundary: what is asked of a cluster is [`TopicFacts`]; what follows from the
//! answers is in `rules`, which knows no Kafka client.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use serde::Serialize;
use tokio::{task, time};

use super::{FAILED, USAGE, bounds, output};
use crate::{
    broker::{
        self,
        kafka::{KafkaProducer, Probe},
    },
    config::{self, Cluster, Config, Problem},
    readiness::rules,
};

pub use rules::{Finding, Level, TopicFacts};

/// What a probe may take longer than it was asked to, before it is given up.
const GRACE: Duration = Duration::from_secs(2);

/// Arguments of `ackgate check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 nothing is wrong (there may be warnings), 1 a cluster lacks \
                        something, 2 wrong usage or configuration."
)]
pub struct Args {
    /// The configuration file.
    #[arg(
        long,
        value_name = "FILE",
        env = "ACKGATE_CONFIG",
        required_unless_present = "options"
    )]
    config: Option<PathBuf>,
    /// Do not connect to the clusters.
    #[arg(long)]
    offline: bool,
    /// Time for each cluster to answer, 100 ms to 10 min.
    #[arg(long, value_name = "DURATION", default_value = "10s",
        value_parser = bounds::duration(Duration::from_millis(100), Duration::from_secs(600)))]
    timeout: Duration,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print every option with its values, default and meaning, as Markdown.
    #[arg(long)]
    options: bool,
}

/// The outcome as `--json` prints it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: String,
    problems: &'a [Problem],
    findings: &'a [Finding],
    errors: usize,
    warnings: usize,
}

/// Checks and reports.
///
/// # Errors
/// The report could not be written.
pub async fn run(args: Args) -> Result<ExitCode> {
    if args.options {
        output::line(config::reference().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.config.unwrap_or_default();
    let file = path.display().to_string();
    let config = match config::load(&path, config::environment()) {
        Ok(config) => config,
        Err(problems) => {
            let list = problems.list();
            let errors = list.len();
            if args.json {
                let report = Report {
                    file,
                    problems: list,
                    findings: &[],
                    errors,
                    warnings: 0,
                };
                output::json(&report)?;
            } else {
                output::line(&output::problems(&problems))?;
            }
            return Ok(ExitCode::from(USAGE));
        }
    };
    let mut findings = vec![Finding::ok(&file, rules::summary(&config))];
    let warnings = config.listen.warnings();
    findings.extend(
        warnings
            .into_iter()
            .map(|it| Finding::warning("listen", it)),
    );
    findings.extend(rules::breakers(&config));
    findings.extend(refused(&config));
    if !args.offline {
        findings.extend(probed(&config, args.timeout, facts).await);
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .count();
    let warnings = findings
        .iter()
        .filter(|finding| finding.level == Level::Warning)
        .count();
    if args.json {
        let report = Report {
            file,
            problems: &[],
            findings: &findings,
            errors,
            warnings,
        };
        output::json(&report)?;
    } else {
        output::line(&shown(&findings, errors, warnings))?;
    }
    Ok(ExitCode::from(if errors > 0 { FAILED } else { 0 }))
}

/// What the client library refuses of the settings that no probe uses.
fn refused(config: &Config) -> Vec<Finding> {
    let publishes = config.publish.iter().filter_map(|publish| {
        let mut clusters = config.clusters.iter();
        let cluster = clusters.find(|it| it.name == publish.cluster)?;
        let error = KafkaProducer::check(cluster, publish).err()?;
        let subject = format!("clusters.{}.publish", cluster.name);
        Some(Finding::error(&subject, error.detail))
    });
    publishes.collect()
}

/// Asks one cluster about topics; those that do not exist are left out. Blocks, at
/// most about `timeout`.
fn facts(
    cluster: &Cluster,
    topics: &[String],
    timeout: Duration,
) -> Result<Vec<TopicFacts>, broker::Error> {
    let probe = Probe::new(cluster, timeout)?;
    probe.brokers()?;
    let mut facts = Vec::with_capacity(topics.len());
    for topic in topics {
        facts.extend(probe.topic(topic)?.map(rules::facts));
    }
    Ok(facts)
}

/// Asks all clusters at the same time and draws the conclusions, in the order of
/// the configuration.
async fn probed<F>(config: &Config, timeout: Duration, ask: F) -> Vec<Finding>
where
    F: Fn(&Cluster, &[String], Duration) -> Result<Vec<TopicFacts>, broker::Error>
        + Clone
        + Send
        + 'static,
{
    let asked: Vec<_> = config
        .clusters
        .iter()
        .map(|cluster| {
            let (ask, topics) = (ask.clone(), rules::topics(config, &cluster.name));
            let of = cluster.clone();
            let answer = task::spawn_blocking(move || ask(&of, &topics, timeout));
            (
                cluster,
                time::timeout(timeout.saturating_add(GRACE), answer),
            )
        })
        .collect();
    let mut findings = Vec::new();
    for (cluster, answer) in asked {
        let answer = match answer.await {
            Ok(Ok(answer)) => answer.map_err(|error| error.detail),
            Ok(Err(_)) => Err("the check itself failed".to_owned()),
            Err(_) => Err(format!(
                "no answer within {}",
                humantime::format_duration(timeout)
            )),
        };
        findings.extend(rules::cluster(config, cluster, answer));
    }
    findings
}

fn shown(findings: &[Finding], errors: usize, warnings: usize) -> String {
    let rows = findings
        .iter()
        .map(|finding| {
            [
                finding.level.word().to_owned(),
                finding.subject.clone(),
                finding.text.clone(),
            ]
        })
        .collect();
    let counted =
        |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}\n\n{}, {}",
        output::table(["", "SUBJECT", "FINDING"], rows),
        counted(errors, "error"),
        counted(warnings, "warning")
    )
}

#[cfg(test)]
mod tests;
