//! The table `[ad_hoc]` becomes an [`AdHoc`], and openings over its template become
//! subscriptions.
//!
//! Both go the way of a subscription in the file: the template is put among the
//! subscriptions of a tree of its own, under a name that stands for it, and read there.

use std::{collections::BTreeSet, path::Path};

use super::{
    AdHoc, Subscription,
    ad_hoc::{Refusal, is_group, is_topic},
    checks,
    options::{self, Spec, TEMPLATE},
    reader::Reader,
    subscription_parse,
    tree::{Node, Origin, Table, Value},
    value::{self, Wrong},
};

/// The template's name in its own tree.
const NAME: &str = "template";

/// What is said of the template begins so.
const KEY: &str = "subscriptions.template";

/// Reads `[ad_hoc]`: `Some(None)` if it is not there, `None` if something is wrong with
/// it; that has been reported. `names` are the clusters'.
pub(super) fn ad_hoc(
    reader: &mut Reader<'_>,
    names: &[&str],
    memory: Option<u64>,
) -> Option<Option<AdHoc>> {
    let [section, template] = TEMPLATE;
    let Some(node) = reader.root.get(section) else {
        return Some(None);
    };
    let table = node.table()?;
    let clusters = reader.read(&options::AD_HOC_CLUSTERS, "", |node, spec| {
        let clusters = value::texts(node, spec)?;
        let unknown = clusters.iter().find(|it| !names.contains(&it.as_str()));
        unknown.map_or(Ok(()), |_| {
            Err(format!(
                "has what is no cluster here; there are: {}",
                names.join(", ")
            ))
        })?;
        Ok(clusters)
    });
    let topics = reader.read(&options::AD_HOC_TOPICS, "", topic_patterns);
    let groups = reader.read(&options::AD_HOC_GROUPS, "", group_patterns);
    let given = reader.given(&options::AD_HOC_DEAD_LETTER_TOPICS, "");
    let dead_letter_topics = match given {
        Some(_) => reader.read(&options::AD_HOC_DEAD_LETTER_TOPICS, "", topic_patterns),
        None => Some(Vec::new()),
    };
    let max = reader.read(&options::AD_HOC_MAX_SUBSCRIPTIONS, "", value::small);

    let empty = Node::new(Value::Table(Table::new()), node.origin.clone());
    let template = table.get(template).unwrap_or(&empty);
    let template_table = template.table()?;
    let mut sample = None;
    // The template is checked even where no cluster for it is known.
    let unknown = [String::new()];
    for cluster in clusters.as_deref().unwrap_or(&unknown) {
        let made = sampled(reader, template, cluster, memory);
        sample = sample.or(made);
    }
    Some(Some(AdHoc {
        clusters: clusters?,
        topics: topics?,
        groups: groups?,
        dead_letter_topics: dead_letter_topics?,
        written: BTreeSet::new(),
        max_subscriptions: usize::try_from(max?).ok()?,
        template: template_table.clone(),
        sample: Box::new(sample?),
    }))
}

pub(super) fn topic_patterns(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    let patterns = value::texts(node, spec)?;
    let possible = |pattern: &String| can_match(pattern, is_topic);
    if patterns.iter().all(possible) {
        return Ok(patterns);
    }
    // Without the pattern: it may have come from where secrets do.
    Err(
        "has a pattern that fits no topic name: these have 1 to 249 of a-z, A-Z, 0-9, '.', '_' and \
         '-'"
        .to_owned(),
    )
}

fn group_patterns(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    let patterns = value::texts(node, spec)?;
    let possible = |pattern: &String| can_match(pattern, is_group);
    if patterns.iter().all(possible) {
        return Ok(patterns);
    }
    Err(
        "has a pattern that fits no consumer group: these have 1 to 255 characters, no space at \
         their ends and no control characters"
            .to_owned(),
    )
}

/// Whether anything that `is_valid` fits the pattern: if so, one does whose stars stand
/// for nothing, or the first of them for one letter.
fn can_match(pattern: &str, is_valid: fn(&str) -> bool) -> bool {
    ["", "a"].into_iter().any(|first| {
        let text = pattern.replacen('*', first, 1).replace('*', "");
        is_valid(&text.replace('?', "a"))
    })
}

/// Reads the template as a subscription on `cluster`.
fn sampled(
    reader: &mut Reader<'_>,
    template: &Node,
    cluster: &str,
    memory: Option<u64>,
) -> Option<Subscription> {
    let mut table = template.table()?.clone();
    let dead_letter = table.get("dead_letter").and_then(Node::table);
    let dead_letter = dead_letter.and_then(|it| it.get("topic")?.text());
    // Any topic but the one that the rules would rightly refuse.
    let topic = if dead_letter == Some("a") { "b" } else { "a" };
    give(&mut table, cluster, &[topic.to_owned()], "any");
    let node = Node::new(Value::Table(table), template.origin.clone());
    let mut root = Table::from([("subscriptions".to_owned(), under(NAME, node))]);
    if let Some(clusters) = reader.root.get("clusters") {
        root.insert("clusters".to_owned(), clusters.clone());
    }
    let mut inner = Reader {
        file: reader.file,
        folder: reader.folder,
        root: &root,
        problems: Vec::new(),
    };
    let made = subscription_parse::subscription(&mut inner, NAME, &[cluster]);
    if let Some(memory) = memory {
        checks::memory(&mut inner, memory);
    }
    checks::revoke_drain(&mut inner);
    let retry = &options::DEAD_LETTER_RETRY_TOPIC;
    if inner.given(retry, NAME).is_some() {
        let why = "would be read by every ad hoc subscription, each of which would get what was \
                   put back for another: declare a subscription to have one";
        inner.refuse(retry, NAME, why);
    }
    let sound = inner.problems.is_empty();
    for mut problem in inner.problems {
        if let Some(rest) = problem.key.strip_prefix(KEY) {
            problem.key = format!("{}{rest}", TEMPLATE.join("."));
        }
        reader.problems.push(problem);
    }
    made.filter(|_| sound)
}

/// Reads an opening's options, which are the template's table with the wishes over it.
pub(super) fn subscription_of(
    mut table: Table,
    cluster: &str,
    topics: &[String],
    group: &str,
) -> Result<Subscription, Vec<Refusal>> {
    give(&mut table, cluster, topics, group);
    let node = Node::new(Value::Table(table), Origin::Default);
    let root = Table::from([("subscriptions".to_owned(), under(NAME, node))]);
    let mut reader = Reader {
        file: "",
        folder: Path::new(""),
        root: &root,
        problems: Vec::new(),
    };
    let made = subscription_parse::subscription(&mut reader, NAME, &[cluster]);
    match made {
        Some(made) if reader.problems.is_empty() => Ok(made),
        Some(_) | None => {
            let refusal = |problem: super::Problem| {
                let option = problem.key.strip_prefix(KEY).unwrap_or(&problem.key);
                Refusal {
                    option: option.trim_start_matches('.').to_owned(),
                    why: problem.expected,
                }
            };
            Err(reader.problems.into_iter().map(refusal).collect())
        }
    }
}

fn give(table: &mut Table, cluster: &str, topics: &[String], group: &str) {
    let text = |text: &str| Node::new(Value::Text(text.to_owned()), Origin::Default);
    let topics = Value::List(topics.iter().map(|topic| text(topic)).collect());
    table.insert("cluster".to_owned(), text(cluster));
    table.insert("topics".to_owned(), Node::new(topics, Origin::Default));
    table.insert("group".to_owned(), text(group));
}

fn under(name: &str, node: Node) -> Node {
    let origin = node.origin.clone();
    Node::new(Value::Table(Table::from([(name.to_owned(), node)])), origin)
}
