//! Why there is nothing to attach to, as a status.

use tonic::Status;

use super::{LONGEST_NAME, options::field};
use crate::{
    config::Denied,
    registry::{Refused, Target},
    session::{convert::printable, outcome::shutting_down, status::Reason},
    telemetry::troubles::{self, Trouble},
};

/// The status of an `Open` for `target` that was refused.
pub(super) fn status(target: &Target, why: Refused) -> Status {
    let (options, name) = match target {
        Target::Named { name, .. } => ("open.expect", name),
        Target::AdHoc(wanted) => ("open.ad_hoc.options", &wanted.cluster),
    };
    let name = printable(name, LONGEST_NAME);
    let at = |option: &str| format!("{options}.{}", field(option));
    match why {
        Refused::Stopping => shutting_down(),
        Refused::UnknownSubscription => Reason::UnknownSubscription.status(format!(
            "no subscription {name:?} in the gateway's configuration"
        )),
        Refused::Off => Reason::AdHocOff
            .status("the gateway's configuration has no [ad_hoc]: name a subscription instead"),
        Refused::UnknownCluster => Reason::UnknownCluster.field(
            "open.ad_hoc.cluster",
            &format!("no cluster {name:?} in the gateway's configuration"),
        ),
        Refused::Denied(denied) => {
            let (field, text) = denied_words(denied);
            Reason::AdHocDenied.field(field, &text)
        }
        Refused::Options(refusals) => Reason::OptionsInvalid.fields(
            refusals
                .into_iter()
                .map(|refusal| (at(&refusal.option), refusal.why)),
        ),
        Refused::Contradicts(contradictions) => {
            let words = contradictions.into_iter().map(|it| {
                let wanted = printable(&it.wanted, LONGEST_NAME);
                (
                    at(it.option),
                    format!(
                        "wanted {wanted}, and the subscription runs with {}",
                        it.running
                    ),
                )
            });
            Reason::OptionsContradict.fields(words)
        }
        Refused::GroupTaken => Reason::GroupTaken.field(
            "open.ad_hoc.group",
            "reads another set of topics in this gateway, and two sets in one group would take \
             each other's lanes: name the same topics, or another group",
        ),
        Refused::Leaving => Reason::GroupLeaving
            .status("an earlier subscription of the group takes long to leave it; try again"),
        Refused::Full(most) => Reason::TooManyAdHoc.status(format!(
            "{most} ad hoc subscriptions run in this gateway, which is as many as are allowed"
        )),
        Refused::Settings(error) => {
            // The library's words may name what is in the configuration.
            if let Some(count) = troubles::again(Trouble::AdHoc) {
                tracing::error!(%error, count, "ad hoc subscriptions cannot be made");
            }
            Reason::SettingsRefused.status(
                "the gateway's configuration does not work for this subscription; its log says why",
            )
        }
    }
}

fn denied_words(denied: Denied) -> (&'static str, String) {
    let by = "by the gateway's [ad_hoc] rules";
    match denied {
        Denied::Cluster => ("open.ad_hoc.cluster", format!("is not allowed {by}")),
        Denied::Topic(topic) => (
            "open.ad_hoc.topics",
            format!("topic {topic} is not allowed {by}"),
        ),
        Denied::Group => ("open.ad_hoc.group", format!("is not allowed {by}")),
        Denied::DeadLetterTopic => (
            "open.ad_hoc.options.dead_letter_topic",
            format!("is not allowed {by}"),
        ),
    }
}
