//! Options of dead letters become a [`DeadLetter`].

use super::{
    Copying, DeadLetter, ExactlyOnce, checks,
    options::{self, Spec},
    parse::properties,
    reader::Reader,
    subscription_parse::topic,
    tree::Node,
    value::{self, Wrong},
};

/// None of them if there is no topic for them; `topics` are those that are read.
pub(super) fn dead_letter(
    reader: &mut Reader<'_>,
    name: &str,
    topics: Option<&[String]>,
) -> Option<Option<DeadLetter>> {
    let dead_letter_topic = reader.read(&options::DEAD_LETTER_TOPIC, name, one_topic);
    let retry_topic = reader.read(&options::DEAD_LETTER_RETRY_TOPIC, name, one_topic);
    let copying = Copying::read(reader, name);
    let producer_properties = properties(reader, &options::DEAD_LETTER_PRODUCER, name);
    checks::dead_letter(reader, name, topics);
    checks::retry_topic(reader, name, topics);
    let exactly_once = exactly_once(reader, name);
    let (copying, producer_properties) = (copying?, producer_properties?);
    let exactly_once = exactly_once?;
    Some(dead_letter_topic.map(|topic| DeadLetter {
        topic,
        retry_topic,
        exactly_once,
        copying,
        producer_properties,
    }))
}

fn one_topic(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    topic(value::text(node, spec)?).map(str::to_owned)
}

/// Whether dead letters and commits are made one, and how.
fn exactly_once(reader: &mut Reader<'_>, name: &str) -> Option<Option<ExactlyOnce>> {
    let is_on = reader.read(&options::DEAD_LETTER_EXACTLY_ONCE, name, value::flag);
    let timeout = reader.read(
        &options::DEAD_LETTER_TRANSACTION_TIMEOUT,
        name,
        value::duration,
    );
    let id = match reader.given(&options::DEAD_LETTER_TRANSACTIONAL_ID, name) {
        Some(_) => Some(reader.read(
            &options::DEAD_LETTER_TRANSACTIONAL_ID,
            name,
            transactional_id,
        )?),
        None => None,
    };
    checks::exactly_once(reader, name, is_on?);
    let timeout = timeout?;
    Some(is_on?.then_some(ExactlyOnce {
        transaction_timeout: timeout,
        transactional_id: id,
    }))
}

fn transactional_id(node: &Node, spec: &Spec) -> Result<String, Wrong> {
    let id = value::text(node, spec)?;
    let is_valid = (1..=200).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if is_valid {
        Ok(id.to_owned())
    } else {
        Err("must be 1 to 200 of a-z, A-Z, 0-9, '.', '_' and '-'".to_owned())
    }
}
