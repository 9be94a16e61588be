//! What subscribers may open without a subscription in the configuration, and how
//! such an opening becomes a [`Subscription`].
//!
//! Invariant: an opening is validated by the reading that validates a subscription of
//! the file, over the template; there is no second set of rules. The template may hold
//! secrets, so no `Debug` here shows it.

use std::{collections::BTreeSet, fmt};

use wildmatch::WildMatch;

use super::{
    Subscription,
    ad_hoc_parse::subscription_of,
    options,
    subscription_parse::{group, topic},
    tree::{Node, Origin, Table, Value},
    wish::{Wish, Wishes},
};

/// Kafka's own topics begin so.
pub(super) const INTERNAL: &str = "__";

/// What may be opened ad hoc.
#[derive(Clone)]
pub struct AdHoc {
    pub(super) clusters: Vec<String>,
    pub(super) topics: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) dead_letter_topics: Vec<String>,
    /// Topics for dead letters of subscriptions in the file, and for those that are put
    /// back: no pattern opens them.
    pub(super) written: BTreeSet<String>,
    /// Most ad hoc subscriptions at a time.
    pub max_subscriptions: usize,
    /// A subscription without cluster, topics and group, as written.
    pub(super) template: Table,
    /// The template as it counts, on the first of the clusters.
    pub(super) sample: Box<Subscription>,
}

/// What an opening asks for and may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The cluster.
    Cluster,
    /// This topic.
    Topic(String),
    /// The group.
    Group,
    /// The topic for dead letters.
    DeadLetterTopic,
}

/// An option of an opening that cannot stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its path below a subscription, as `dead_letter.topic`.
    pub option: String,
    /// What is expected, in words that follow the option.
    pub why: String,
}

/// Whether Kafka takes `name` for a topic.
#[must_use]
pub fn is_topic(name: &str) -> bool {
    topic(name).is_ok()
}

/// Whether the configuration takes `name` for a consumer group.
#[must_use]
pub fn is_group(name: &str) -> bool {
    let node = Node::new(Value::Text(name.to_owned()), Origin::Default);
    group(&node, &options::GROUP).is_ok()
}

impl AdHoc {
    /// Clusters where anything may be opened.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().map(String::as_str)
    }

    /// Whether openings may name these. Topics and group are valid names.
    ///
    /// # Errors
    /// The first that they may not name.
    pub fn allows(
        &self,
        cluster: &str,
        topics: &[String],
        group: &str,
        wishes: &Wishes,
    ) -> Result<(), Denied> {
        if !self.clusters.iter().any(|allowed| allowed == cluster) {
            return Err(Denied::Cluster);
        }
        if let Some(topic) = topics.iter().find(|topic| !self.opens(topic)) {
            return Err(Denied::Topic(topic.clone()));
        }
        if !matches(&self.groups, group) {
            return Err(Denied::Group);
        }
        let own = self.sample.dead_letter.as_ref().map(|own| &own.topic);
        match wishes.of("dead_letter.topic") {
            Some(Wish::Text(topic)) if own != Some(topic) => {
                let allowed = fits(&self.dead_letter_topics, topic);
                allowed.then_some(()).ok_or(Denied::DeadLetterTopic)
            }
            Some(Wish::Text(_) | Wish::Number(_) | Wish::Span(_) | Wish::Start(_)) | None => Ok(()),
        }
    }

    /// The subscription that an opening makes: the template, with the wishes over it.
    /// Topics are sorted and without repeats.
    ///
    /// # Errors
    /// Every option that cannot stand.
    pub fn subscription(
        &self,
        name: String,
        cluster: &str,
        topics: &[String],
        group: &str,
        wishes: &Wishes,
    ) -> Result<Subscription, Vec<Refusal>> {
        let unknown: Vec<Refusal> = wishes.options().filter_map(unknown).collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let mut table = self.template.clone();
        wishes.put_over(&mut table).map_err(|option| {
            vec![Refusal {
                option: option.to_owned(),
                why: "is out of range".to_owned(),
            }]
        })?;
        let made = subscription_of(table, cluster, topics, group);
        made.map(|made| Subscription { name, ..made })
    }

    /// Whether a topic may be read. One for dead letters has to be named as it is: a
    /// pattern that happens to fit would hand them out as if they were new, and send what
    /// is rejected there round for ever.
    fn opens(&self, topic: &str) -> bool {
        let is_written = self.written.contains(topic)
            || self.sample.writes().iter().any(|own| own == topic)
            || self.is_for_letters(topic);
        let is_named = self.topics.iter().any(|allowed| allowed == topic);
        is_named || (!is_written && fits(&self.topics, topic))
    }

    /// Whether openings may send dead letters there by a pattern that says something.
    fn is_for_letters(&self, topic: &str) -> bool {
        let patterns = self.dead_letter_topics.iter();
        patterns
            .filter(|pattern| pattern.chars().any(|c| !"*?".contains(c)))
            .any(|pattern| WildMatch::new(pattern).matches(topic))
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("clusters", self.clusters.join(",")),
            ("topics", self.topics.join(",")),
            ("groups", self.groups.join(",")),
            ("dead_letter_topics", self.dead_letter_topics.join(",")),
            ("max_subscriptions", self.max_subscriptions.to_string()),
        ]
    }

    pub(super) fn template_settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.sample.settings();
        settings.retain(|(key, _)| !options::GIVEN_BY_OPENINGS.contains(key));
        settings
    }
}

/// Known words of the protocol that this version's configuration does not have.
fn unknown(option: &str) -> Option<Refusal> {
    let path = ["subscriptions", ""].into_iter().chain(option.split('.'));
    let path: Vec<String> = path.map(str::to_owned).collect();
    options::at(&path).is_none().then(|| Refusal {
        option: option.to_owned(),
        why: "is not available in this version".to_owned(),
    })
}

pub(super) fn matches(patterns: &[String], text: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| WildMatch::new(pattern).matches(text))
}

/// As [`matches`]; a star alone must not open Kafka's own topics.
fn fits(patterns: &[String], topic: &str) -> bool {
    if !topic.starts_with(INTERNAL) {
        return matches(patterns, topic);
    }
    patterns
        .iter()
        .filter(|pattern| pattern.starts_with(INTERNAL))
        .any(|pattern| WildMatch::new(pattern).matches(topic))
}

impl fmt::Debug for AdHoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            clusters,
            topics,
            groups,
            dead_letter_topics,
            written,
            max_subscriptions,
            template: _,
            sample,
        } = self;
        f.debug_struct("AdHoc")
            .field("clusters", clusters)
            .field("topics", topics)
            .field("groups", groups)
            .field("dead_letter_topics", dead_letter_topics)
            .field("written", written)
            .field("max_subscriptions", max_subscriptions)
            .field("template", sample)
            .finish()
    }
}
