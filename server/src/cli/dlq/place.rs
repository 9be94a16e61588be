//! Which dead-letter topic is meant, and what belongs to it.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    cli::{Usage, target::Target},
    config::{self, Cluster, Subscription},
};

/// Where the dead letters are.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct From {
    /// The gateway's configuration file, in which the subscription is.
    #[arg(long, value_name = "FILE", env = "ACKGATE_CONFIG")]
    config: Option<PathBuf>,

    /// The subscription whose dead letters are meant; those of others in the same topic
    /// are left out. Not needed where only one has dead letters.
    #[arg(long, short = 's', value_name = "NAME")]
    subscription: Option<String>,

    #[command(flatten)]
    target: Target,

    /// The dead-letter topic, together with --bootstrap or --cluster instead of --config.
    #[arg(long, short = 't', value_name = "TOPIC")]
    topic: Option<String>,

    /// Only dead letters of this consumer group.
    #[arg(long, short = 'g', value_name = "GROUP")]
    group: Option<String>,
}

/// What was meant.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) cluster: Cluster,
    /// The dead-letter topic.
    pub(super) topic: String,
    /// The group whose dead letters are meant; `None`: everybody's.
    pub(super) group: Option<String>,
    /// Where to put them back.
    pub(super) retry_topic: Option<String>,
    /// For a producer.
    pub(super) properties: Vec<(String, String)>,
    /// Topics that nothing may be put back into.
    pub(super) sources: Vec<String>,
}

impl From {
    /// Reads the configuration, or takes what the arguments say.
    ///
    /// # Errors
    /// They say too little or contradict each other, or the configuration is wrong.
    pub(super) fn place(&self) -> Result<Place> {
        let Some(topic) = &self.topic else {
            // Elsewhere than the configuration says would be a surprise.
            if self.target.has_bootstrap() {
                let why = "--bootstrap needs --topic, the dead-letter topic: a subscription's \
                           brokers are those of its configuration";
                return Err(Usage(why.to_owned()).into());
            }
            return self.configured();
        };
        if self.subscription.is_some() {
            let why = "--topic and --subscription name two things: give one of them";
            return Err(Usage(why.to_owned()).into());
        }
        let Some(cluster) = self.target.cluster()? else {
            let why = "no cluster: give --bootstrap HOST:PORT or --cluster kafka://HOST:PORT";
            return Err(Usage(why.to_owned()).into());
        };
        Ok(Place {
            cluster,
            topic: topic.clone(),
            group: self.group.clone(),
            retry_topic: None,
            properties: Vec::new(),
            sources: Vec::new(),
        })
    }

    fn configured(&self) -> Result<Place> {
        let Some(path) = &self.config else {
            let why = "no dead-letter topic: give --config FILE and --subscription NAME, or \
                       --bootstrap HOST:PORT and --topic TOPIC";
            return Err(Usage(why.to_owned()).into());
        };
        let config = config::load(path, config::environment())?;
        let subscription = self.chosen(&config.subscriptions)?;
        let mut clusters = config.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.name == subscription.cluster);
        let (Some(dead_letter), Some(cluster)) = (&subscription.dead_letter, cluster) else {
            let why = format!("subscription {} has no dead letters", subscription.name);
            return Err(Usage(why).into());
        };
        let group = self.group.as_ref().unwrap_or(&subscription.group);
        Ok(Place {
            cluster: cluster.clone(),
            topic: dead_letter.topic.clone(),
            group: Some(group.clone()),
            retry_topic: dead_letter.retry_topic.clone(),
            properties: dead_letter.producer_properties.clone(),
            sources: subscription.topics.clone(),
        })
    }

    fn chosen<'a>(&self, all: &'a [Subscription]) -> Result<&'a Subscription, Usage> {
        let with = || all.iter().filter(|it| it.dead_letter.is_some());
        let names = || {
            let names: Vec<&str> = with().map(|it| it.name.as_str()).collect();
            names.join(", ")
        };
        if let Some(name) = &self.subscription {
            let found = all.iter().find(|it| it.name == *name);
            return found.ok_or_else(|| {
                let names = names();
                Usage(format!(
                    "no subscription is called {name:?}; with dead letters there are: {names}"
                ))
            });
        }
        let mut found = with();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Usage("no subscription has dead letters".to_owned())),
            (Some(_), Some(_)) => Err(Usage(format!(
                "give --subscription NAME, one of: {}",
                names()
            ))),
        }
    }
}
