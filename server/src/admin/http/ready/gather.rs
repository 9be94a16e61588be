//! What keeps the gateway from serving, from those who know: the question to each cluster,
//! and each subscription's driver.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;

use super::{Finding, Status};
use crate::{
    admin::http::Parts,
    broker::ClusterState,
    consumer::{Handle, Reason, ReasonKind, Shown, State, Weight},
    health::Answer,
};

/// How long a driver may take to show itself; it does in its next turn.
const SHOWN_WITHIN: Duration = Duration::from_secs(3);

/// What is told of a cluster that does not answer.
const UNREACHABLE: &str = "cluster-unreachable";

/// Everything there is to tell, what follows from it included.
pub(super) async fn findings(parts: &Parts) -> Vec<Finding> {
    let mut found = Vec::new();
    if parts.health.is_draining() {
        let text = "the gateway stops: it takes no new streams";
        found.push(Finding::new(Status::NotReady, "draining", text));
    }
    clusters(&parts.health.clusters(), &mut found);
    let away: Vec<String> = found.iter().filter_map(missed_by_some).collect();
    let running = parts.registry.running().into_iter();
    let of_each = running.map(async |(name, handle)| {
        let is_missed_by_some = away.contains(&handle.subscription().cluster);
        let mut found = subscription(&name, &handle).await;
        if is_missed_by_some {
            spare(&mut found);
        }
        found
    });
    found.extend(join_all(of_each).await.into_iter().flatten());
    found
}

pub(super) fn clusters(clusters: &[(String, Option<Answer>)], found: &mut Vec<Finding>) {
    let answers = |answer: &Option<Answer>| answer.as_ref().is_some_and(|it| it.answers);
    let any = clusters.iter().any(|(_, answer)| answers(answer));
    let status = if any {
        Status::Degraded
    } else {
        Status::NotReady
    };
    for (name, answer) in clusters {
        let mut finding = match answer {
            Some(answer) if answer.answers => {
                Finding::new(Status::Ready, "cluster-answers", "the cluster answers")
            }
            Some(answer) => {
                let error = answer.error.as_deref().unwrap_or("no answer");
                let text = format!("the cluster does not answer: {error}");
                Finding::new(status, UNREACHABLE, text)
            }
            None => {
                let text = "the cluster has not answered yet: it is being asked";
                Finding::new(status, "cluster-not-asked", text)
            }
        };
        finding.since_ms = answer.as_ref().map(|answer| millis(answer.since));
        finding.cluster = Some(name.clone());
        found.push(finding);
    }
}

/// The cluster that is away while another answers, if this tells of one.
fn missed_by_some(finding: &Finding) -> Option<String> {
    let is_one = finding.kind == UNREACHABLE && finding.status == Status::Degraded;
    finding.cluster.clone().filter(|_| is_one)
}

/// A group is gone with its whole cluster, and another cluster answers: who subscribes there
/// needs this gateway.
pub(super) fn spare(found: &mut [Finding]) {
    for finding in found {
        if finding.kind == ReasonKind::GroupFenced.code() {
            finding.status = Status::Degraded;
        }
    }
}

async fn subscription(name: &str, handle: &Handle) -> Vec<Finding> {
    let mut found = Vec::new();
    let trouble = match handle.state() {
        State::Away | State::Joined(ClusterState::Reachable) => None,
        State::Joined(ClusterState::Unreachable { detail }) => Some(Finding::new(
            Status::Degraded,
            "consumer-unreachable",
            format!("its consumer does not reach what it reads: {detail}"),
        )),
        State::Joined(ClusterState::Rebuilding { detail }) => Some(Finding::new(
            Status::Degraded,
            "consumer-rebuilding",
            format!("its consumer failed and is built again: {detail}"),
        )),
        State::Stopped => {
            let text = "it has stopped";
            Some(Finding::new(Status::Degraded, "stopped", text))
        }
    };
    found.extend(trouble);
    match tokio::time::timeout(SHOWN_WITHIN, handle.show()).await {
        Ok(Ok(shown)) => of_shown(shown, &mut found),
        // Told above.
        Ok(Err(_stopped)) => {}
        Err(_elapsed) => {
            let text = format!("its driver did not answer within {SHOWN_WITHIN:?}");
            found.push(Finding::new(Status::Degraded, "busy", text));
        }
    }
    for finding in &mut found {
        finding.subscription = Some(name.to_owned());
    }
    found
}

pub(super) fn of_shown(shown: Shown, found: &mut Vec<Finding>) {
    if let Some(group) = shown.group {
        found.push(finding(group));
        // Each of its lanes would say the same.
        return;
    }
    for lane in shown.lanes {
        if let Some(why) = lane.why {
            let mut of_lane = finding(why);
            of_lane.lane = Some((lane.label.topic.to_string(), lane.label.partition));
            found.push(of_lane);
        }
    }
}

pub(super) fn finding(why: Reason) -> Finding {
    let status = match (why.kind, why.kind.weight()) {
        (ReasonKind::GroupFenced, _) => Status::NotReady,
        (_, Weight::Held | Weight::Stalled) => Status::Degraded,
        (_, Weight::Waits) => Status::Ready,
    };
    Finding {
        offset: why.offset,
        since_ms: why.since_ms,
        ..Finding::new(status, why.kind.code(), why.text)
    }
}

fn millis(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
