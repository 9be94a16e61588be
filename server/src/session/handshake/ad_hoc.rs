//! What an `Open` wants to attach to: a subscription by name, or topics in a group.

use ackgate_proto::v1;
use tonic::Status;

use super::options;
use crate::{
    config::{is_group, is_topic},
    registry::{MAX_TOPICS, Target, Wanted},
    session::{convert::printable, status::Reason},
};

/// How much of a wrong name is repeated to the one who sent it.
const SHOWN: usize = 80;

/// Takes the target out of `open` and checks it.
pub(super) fn target(open: &mut v1::Open) -> Result<Target, Status> {
    let invalid = |field: &str, text: &str| Err(Reason::OpenInvalid.field(field, text));
    let name = std::mem::take(&mut open.subscription);
    let expect = open.expect.take();
    match open.ad_hoc.take() {
        None if name.is_empty() => invalid(
            "open.subscription",
            "must name a subscription of the gateway, or ad_hoc must be set",
        ),
        None => {
            let expect = expect.unwrap_or_default();
            let expect = options::wishes(expect, "open.expect")?;
            Ok(Target::Named { name, expect })
        }
        Some(_) if !name.is_empty() => {
            invalid("open.ad_hoc", "stands beside subscription: set one of them")
        }
        Some(_) if expect.is_some() => invalid(
            "open.expect",
            "goes with a named subscription: use ad_hoc.options",
        ),
        Some(ad_hoc) => wanted(ad_hoc).map(Target::AdHoc),
    }
}

fn wanted(ad_hoc: v1::AdHoc) -> Result<Wanted, Status> {
    let v1::AdHoc {
        cluster,
        mut topics,
        group,
        options,
    } = ad_hoc;
    if topics.is_empty() {
        return Err(Reason::TopicsEmpty.field("open.ad_hoc.topics", "must name at least one topic"));
    }
    // Before anything is done with them: a message holds many more.
    if topics.len() > MAX_TOPICS {
        return Err(Reason::TooManyTopics.field(
            "open.ad_hoc.topics",
            &format!(
                "has {} entries: at most {MAX_TOPICS} are allowed",
                topics.len()
            ),
        ));
    }
    if let Some((at, wrong)) = topics.iter().enumerate().find(|(_, name)| !is_topic(name)) {
        return Err(Reason::TopicInvalid.field(
            &format!("open.ad_hoc.topics[{at}]"),
            &format!(
                "is {:?}, which is no topic name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', \
                 other than \".\" and \"..\"",
                printable(wrong, SHOWN)
            ),
        ));
    }
    if !is_group(&group) {
        return Err(Reason::GroupInvalid.field(
            "open.ad_hoc.group",
            "must have 1 to 255 bytes, no space at its ends and no control characters",
        ));
    }
    topics.sort();
    topics.dedup();
    Ok(Wanted {
        cluster,
        topics,
        group,
        wishes: options::wishes(options.unwrap_or_default(), "open.ad_hoc.options")?,
    })
}
