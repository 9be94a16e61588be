//! What `ackgate sub` is told.

use std::time::Duration;

use ackgate_client::{Batches, Builder, Subscriber};

use super::Verdict;
use crate::cli::{Usage, access::Access, bounds, target};

/// Arguments of `ackgate sub`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 it was stopped, or came to --max, \
    --exit-when-idle or --until-drained, or nobody reads its output any more; 1 the gateway refused, \
    or the last verdicts may not count; 2 wrong usage; 130 it was stopped a second time. A gateway \
    that cannot be reached is waited for.")]
pub struct Args {
    /// The subscription to read, as the gateway's configuration names it.
    #[arg(required_unless_present = "cluster")]
    subscription: Option<String>,

    /// Reads topics of this cluster without a subscription, where the gateway allows it.
    #[arg(long, value_name = "NAME", conflicts_with = "subscription",
        requires_all = ["topics", "group"])]
    cluster: Option<String>,

    /// A topic to read with --cluster. May be repeated.
    #[arg(
        long = "topic",
        id = "topics",
        value_name = "TOPIC",
        requires = "cluster"
    )]
    topics: Vec<String>,

    /// The consumer group with --cluster.
    #[arg(long, value_name = "GROUP", requires = "cluster")]
    group: Option<String>,

    #[doc = target::address_help!()]
    #[arg(long, env = "ACKGATE_ADDRESS", default_value = "http://127.0.0.1:7654")]
    pub(super) address: String,

    #[command(flatten)]
    pub(super) access: Access,

    /// What to say about each record.
    #[arg(long, value_enum, default_value_t)]
    pub(super) verdict: Verdict,

    /// Fails every Nth record received, whatever the verdict.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) fail_every: Option<u64>,

    /// Stops after N records.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max: Option<u64>,

    /// Prints records, and the summary, as JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,

    /// Prints no records.
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// The most records that may be out at a time.
    #[arg(long, value_name = "N", default_value_t = 8_192,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) credit: u32,

    /// The name by which dead letters and logs know this subscriber. Only one may have
    /// it at a time.
    #[arg(long, value_name = "NAME", value_parser = bounds::name)]
    pub(super) id: Option<String>,

    /// Ends another subscriber of the same --id instead of waiting until it has gone.
    #[arg(long, requires = "id")]
    pub(super) takeover: bool,

    /// If the connection is lost, lets others have at once what is out, instead of
    /// coming back for it.
    #[arg(long)]
    no_resume: bool,

    /// Which records to expect: the subscription's filter, or one of its own in a
    /// broadcast.
    #[arg(long, value_name = "EXPRESSION", value_parser = bounds::filter)]
    filter: Option<String>,

    /// Stops when no record has come for this long, such as `5s`.
    #[arg(long, value_name = "DURATION",
        value_parser = bounds::duration(Duration::from_millis(1), bounds::DAY))]
    pub(super) exit_when_idle: Option<Duration>,

    /// Stops when everything that there is has been read and answered.
    #[arg(long)]
    until_drained: bool,

    /// The most records in one batch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch_records: Option<u32>,

    /// The most bytes of records in one batch.
    #[arg(long, value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(1024..=16_777_216))]
    batch_bytes: Option<u64>,

    /// How long the first record of a batch may wait for others, such as `50ms`, up to 1 min.
    #[arg(long, value_name = "DURATION",
        value_parser = bounds::duration(Duration::ZERO, Duration::from_secs(60)))]
    batch_linger: Option<Duration>,

    /// The part of a batch, 0.01 to 1, at which it does not wait any longer.
    #[arg(long, value_name = "PART", value_parser = bounds::part)]
    batch_min_fill: Option<f64>,
}

impl Args {
    /// The subscriber that the arguments describe, at the gateway `address`.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub(super) fn builder(&self, address: &str) -> Result<Builder, Usage> {
        let mut builder = match (&self.subscription, &self.cluster) {
            (Some(subscription), _) => Subscriber::builder(address, subscription),
            (None, cluster) => Subscriber::ad_hoc(
                address,
                cluster.as_deref().unwrap_or_default(),
                &self.topics,
                self.group.as_deref().unwrap_or_default(),
            ),
        };
        builder = builder
            .subscriber_id(self.id.clone().unwrap_or_default())
            .takeover(self.takeover)
            .resumable(!self.no_resume)
            .filter(self.filter.clone().unwrap_or_default());
        if self.until_drained {
            builder = builder.until_drained();
        }
        if let Some(batches) = self.batches() {
            builder = builder.batches(batches);
        }
        self.access.subscriber(builder)
    }

    /// What is asked of batches, if anything is.
    fn batches(&self) -> Option<Batches> {
        let asked = self.batch_records.is_some()
            || self.batch_bytes.is_some()
            || self.batch_linger.is_some()
            || self.batch_min_fill.is_some();
        let mut batches = Batches::new();
        if let Some(records) = self.batch_records {
            batches = batches.max_records(records);
        }
        if let Some(bytes) = self.batch_bytes {
            batches = batches.max_bytes(bytes);
        }
        if let Some(linger) = self.batch_linger {
            batches = batches.linger(linger);
        }
        if let Some(part) = self.batch_min_fill {
            batches = batches.min_fill(part);
        }
        asked.then_some(batches)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Args, String> {
        let words = std::iter::once("sub").chain(line.split_whitespace());
        let line = Line::try_parse_from(words);
        line.map(|line| line.args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn subscription_or_cluster_topics_and_group_are_needed() {
        assert!(parsed("orders").is_ok());
        let ad_hoc = parsed("--cluster main --topic a --topic b --group g").expect("all are there");
        assert_eq!(ad_hoc.topics, ["a", "b"]);
        for wrong in [
            "",
            "orders --cluster main --topic a --group g",
            "--cluster main --topic a",
            "--cluster main --group g",
            "orders --topic a",
            "orders --group g",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn batches_are_asked_for_only_where_an_argument_says_so() {
        assert_eq!(parsed("orders").expect("valid").batches(), None);
        let args = parsed("orders --batch-records 10 --batch-linger 50ms").expect("valid");
        let expected = Batches::new()
            .max_records(10)
            .linger(Duration::from_millis(50));
        assert_eq!(args.batches(), Some(expected));
        assert!(parsed("orders --batch-records 0").is_err());
        assert!(parsed("orders --batch-bytes 1").is_err());
    }
}
