//! What `ackgate pub` is told.

use std::{path::PathBuf, time::Duration};

use ackgate_client::{Acks, Publisher, PublisherBuilder};
use anyhow::Result;

use super::input::Shape;
use crate::{
    broker::kafka::bulk,
    cli::{
        Usage,
        access::Access,
        bounds,
        target::{self, Target},
    },
    config::{self, Cluster},
};

/// Heading of the options that concern the way through a gateway.
const GATEWAY: &str = "Through a gateway";

/// Heading of those that go without one.
const DIRECT: &str = "Straight to Kafka, without a gateway";

/// Arguments of `ackgate pub`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every record was written; 1 at least one was not, or \
    nobody knows, or it was stopped before the input ended; 2 wrong usage or configuration; \
    130 it was stopped a second time."
)]
pub struct Args {
    /// The topic to write to.
    #[arg(required_unless_present = "own_topics")]
    topic: Option<String>,

    /// Files to read, one record per line without its newline; `-` or none: standard
    /// input.
    files: Vec<PathBuf>,

    /// Takes each line as a JSON object, as `ackgate sub --json` prints it: `key`, `value`,
    /// `headers`, `partition`, `timestamp_ms`. The value must be there: null is Kafka's null,
    /// a string is its bytes, and any other JSON its text; `key_base64` and `value_base64`
    /// are for what is no text.
    #[arg(long)]
    ndjson: bool,

    /// Writes each object to the topic that it names, and there is no TOPIC argument.
    #[arg(long, requires = "ndjson")]
    own_topics: bool,

    /// Lets keys decide about partitions, whatever the objects say.
    #[arg(long, requires = "ndjson", conflicts_with = "partition")]
    repartition: bool,

    /// Takes each file whole as one record.
    #[arg(long, conflicts_with_all = ["key_separator", "ndjson"])]
    file_per_record: bool,

    /// Takes what comes before the first SEPARATOR of a line as the record's key;
    /// `\t` is a tab. A line without it is not written.
    #[arg(long, short = 'K', value_name = "SEPARATOR", value_parser = separator,
        conflicts_with = "ndjson")]
    key_separator: Option<String>,

    /// The key of every record, with --ndjson of those that have none.
    #[arg(long, short = 'k', conflicts_with = "key_separator")]
    pub(super) key: Option<String>,

    /// Writes to this partition only.
    #[arg(long, short = 'p', value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) partition: Option<i32>,

    /// A header for every record, after its own. May be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME=VALUE", value_parser = target::pair)]
    pub(super) headers: Vec<(String, String)>,

    /// The most records that are written in a second.
    #[arg(long, value_name = "N/s", value_parser = rate)]
    pub(super) rate: Option<f64>,

    /// Which brokers must have a record before it counts as written. Without it: all, or
    /// what the gateway's configuration says.
    #[arg(long, value_enum)]
    acks: Option<AcksArg>,

    /// Prints the summary as JSON.
    #[arg(long)]
    pub(super) json: bool,

    #[doc = target::address_help!()]
    #[arg(long, env = "ACKGATE_ADDRESS", default_value = "http://127.0.0.1:7654",
        help_heading = GATEWAY)]
    pub(super) address: String,

    #[command(flatten)]
    pub(super) access: Access,

    /// The cluster, as the gateway's configuration names it; needed only where more than
    /// one takes records. With --config: as that file names it.
    #[arg(long, value_name = "NAME", conflicts_with = "bootstrap", help_heading = GATEWAY)]
    cluster: Option<String>,

    /// Sends again what was not answered when the connection was lost: each such record may
    /// be written twice. Without it they are named as records that may or may not be written.
    #[arg(long, help_heading = GATEWAY)]
    retry_unanswered: bool,

    /// How long to wait for a gateway at the beginning, and for answers at the end, up to
    /// 1 day.
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = GATEWAY,
        value_parser = bounds::duration(Duration::from_millis(1), bounds::DAY))]
    pub(super) wait: Duration,

    /// Brokers to ask first, as HOST[:PORT], separated by commas; the port is 9092
    /// if not given.
    #[arg(long, value_name = "HOST:PORT,..", value_delimiter = ',', help_heading = DIRECT)]
    bootstrap: Vec<String>,

    /// A client property for librdkafka, such as security.protocol=sasl_ssl. May be
    /// repeated.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = target::pair,
        requires = "bootstrap", help_heading = DIRECT)]
    properties: Vec<(String, String)>,

    /// A gateway's configuration: the cluster with its password and properties is taken
    /// from there.
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap", help_heading = DIRECT)]
    config: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AcksArg {
    /// All in-sync replicas; a retry never writes twice.
    All,
    /// The partition's leader alone.
    Leader,
    /// None: a record counts as written once it is sent. Through a gateway only.
    None,
}

impl Args {
    /// The topic of every record, unless each has its own.
    pub(super) fn topic(&self) -> Option<&str> {
        self.topic.as_deref().filter(|_| !self.own_topics)
    }

    /// What is read. Where each record has its own topic, the first argument is a file too.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let first = self.topic.as_ref().filter(|_| self.own_topics);
        let first = first.map(PathBuf::from);
        first
            .into_iter()
            .chain(self.files.iter().cloned())
            .collect()
    }

    /// How input becomes records.
    pub(super) fn shape(&self) -> Shape {
        if self.ndjson {
            Shape::Objects
        } else if self.file_per_record {
            Shape::Whole
        } else {
            match &self.key_separator {
                Some(separator) => Shape::KeyedLines(separator.clone().into_bytes()),
                None => Shape::Lines,
            }
        }
    }

    /// Whether the partition that a record names is its own.
    pub(super) const fn keeps_partitions(&self) -> bool {
        !self.repartition
    }

    /// The cluster to write to without a gateway, if the arguments name one.
    ///
    /// # Errors
    /// An address or a property is refused, the file is not a valid configuration, or has
    /// no such cluster.
    pub(super) fn cluster(&self) -> Result<Option<Cluster>> {
        let Some(path) = &self.config else {
            return Target::with(&self.bootstrap, &self.properties).cluster();
        };
        let config = config::load(path, config::environment())?;
        let names: Vec<_> = config.clusters.iter().map(|it| it.name.clone()).collect();
        let names = names.join(", ");
        let mut clusters = config.clusters.into_iter();
        let found = match &self.cluster {
            Some(name) => clusters.find(|it| it.name == *name),
            None if clusters.len() == 1 => clusters.next(),
            None => {
                return Err(usage(format!(
                    "{} has more than one cluster: choose with --cluster one of {names}",
                    path.display()
                )));
            }
        };
        match found {
            Some(cluster) => Ok(Some(cluster)),
            None => Err(usage(format!(
                "{} has no such cluster, only {names}",
                path.display()
            ))),
        }
    }

    /// The acks of a direct way.
    ///
    /// # Errors
    /// It has no such.
    pub(super) fn direct_acks(&self) -> Result<bulk::Acks> {
        match self.acks {
            None | Some(AcksArg::All) => Ok(bulk::Acks::All),
            Some(AcksArg::Leader) => Ok(bulk::Acks::Leader),
            Some(AcksArg::None) => Err(usage(
                "--acks none goes through a gateway only: give --acks leader, or neither \
                 --bootstrap nor --config"
                    .to_owned(),
            )),
        }
    }

    /// The publisher that the arguments describe, at the gateway `address`.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub(super) fn builder(&self, address: &str) -> Result<PublisherBuilder, Usage> {
        let acks = match self.acks {
            None => Acks::Configured,
            Some(AcksArg::All) => Acks::All,
            Some(AcksArg::Leader) => Acks::Leader,
            Some(AcksArg::None) => Acks::None,
        };
        let builder = Publisher::builder(address)
            .cluster(self.cluster.clone().unwrap_or_default())
            .acks(acks)
            .retry_unanswered(self.retry_unanswered);
        self.access.publisher(builder)
    }
}

fn usage(text: String) -> anyhow::Error {
    Usage(text).into()
}

fn separator(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a separator has at least one character".to_owned());
    }
    Ok(text.replace("\\t", "\t"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        Ok(_) | Err(_) => {
            Err("expected records a second, 0.001 to 1,000,000,000, as 100 or 100/s".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separator_may_be_written_as_backslash_t() {
        assert_eq!(separator("\\t").unwrap(), "\t");
        assert_eq!(separator("::").unwrap(), "::");
        separator("").unwrap_err();
    }

    #[test]
    fn rate_is_a_positive_number() {
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(rate("200/s"), Ok(200.0));
        for wrong in ["0", "-1", "NaN", "inf", "fast"] {
            rate(wrong).unwrap_err();
        }
    }
}
