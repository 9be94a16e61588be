//! Asks everything that counts, and makes one [`Picture`] of the answers.
//!
//! **Invariants**: it takes a bounded time, however many subscriptions there are; a series is
//! told true or not at all: of a subscription that does not answer in time none is, and of
//! ad hoc ones, which are summed, none if one of them does not.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use tokio::time::timeout;

use super::{
    lanes::{self, Lanes},
    names,
    picture::Picture,
    subscription::{Whole, names_of},
};
use crate::{
    consumer::{Handle, Measured, State, Stopped},
    health::View,
    publish::Desk,
    registry::{Measurable, Registry},
    session::Gate,
    telemetry::traces::Spans,
};

/// How long subscriptions may take to answer: their drivers do in their next turn.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// What ad hoc subscriptions, and the topics of their lanes, are called together.
const AD_HOC: &str = "(ad hoc)";

/// Where the numbers come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The subscriptions, and their memory.
    pub registry: Registry,
    /// What is published.
    pub desk: Desk,
    /// The sessions.
    pub gate: Gate,
    /// How the clusters answer.
    pub(crate) health: View,
    /// When the gateway began.
    pub started: SystemTime,
    /// The most lanes with series of their own.
    pub max_lanes: usize,
    /// How exports went.
    pub exports: Arc<Exports>,
    /// What became of spans that were to be sent.
    pub spans: Arc<Spans>,
}

/// How exports over OTLP went.
#[derive(Debug, Default)]
pub struct Exports {
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// What one subscription says: its numbers, or what it had counted when it ended.
enum Answer {
    Now(Box<Measured>, State),
    Late,
}

impl Source {
    /// Asks, and waits for the answers, at most about two seconds.
    pub(super) async fn picture(&self) -> Picture {
        let Measurable {
            declared,
            ad_hoc,
            past,
        } = self.registry.measurable();
        let (declared, ad_hoc) = tokio::join!(
            join_all(declared.iter().map(ask)),
            join_all(ad_hoc.iter().map(ask)),
        );
        let mut picture = Picture::default();
        let mut all = Vec::new();
        let mut missing = 0_u64;
        for (handle, answer) in declared {
            let Answer::Now(measured, state) = answer else {
                missing += 1;
                continue;
            };
            let subscription = handle.subscription();
            let names = [&subscription.name, &subscription.cluster].map(|name| lanes::shared(name));
            let names = names_of(&names[0], &names[1]);
            let mut whole = Whole::default();
            whole.add(&measured, &state);
            whole.put(&mut picture, &names);
            all.push(Lanes {
                names,
                summed: None,
                lanes: measured.lanes,
            });
        }
        missing += sum_ad_hoc(&mut picture, &mut all, ad_hoc, past);
        lanes::put(&mut picture, &all, self.max_lanes);
        self.put_gateway(&mut picture, missing);
        self.put_published(&mut picture);
        picture
    }

    fn put_gateway(&self, picture: &mut Picture, missing: u64) {
        let version = env!("CARGO_PKG_VERSION");
        picture.put(&names::BUILD_INFO, vec![version.into()], 1u64);
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        picture.put(&names::START_TIME, Vec::new(), started.as_secs_f64());
        let budget = self.registry.budget();
        picture.put(&names::MEMORY_USED, Vec::new(), budget.used());
        picture.put(&names::MEMORY_LIMIT, Vec::new(), budget.limit());
        let (streams, pulls) = self.gate.sessions();
        for (kind, count) in [
            ("stream", streams),
            ("pull", pulls),
            ("publish", self.desk.open()),
        ] {
            picture.put(&names::SESSIONS, vec![kind.into()], count as u64);
        }
        for (cluster, answer) in self.health.clusters() {
            let Some(answer) = answer else { continue };
            let labels = vec![(&lanes::shared(&cluster)).into()];
            let reachable = u64::from(answer.answers);
            picture.put(&names::CLUSTER_REACHABLE, labels, reachable);
        }
        picture.put(&names::MISSING, Vec::new(), missing);
        let Exports { sent, failed } = &*self.exports;
        for (outcome, count) in [("sent", sent), ("failed", failed)] {
            let count = count.load(Ordering::Relaxed);
            picture.put(&names::EXPORTS, vec![outcome.into()], count);
        }
        let Spans { sent, lost } = &*self.spans;
        for (outcome, count) in [("sent", sent), ("lost", lost)] {
            let count = count.load(Ordering::Relaxed);
            picture.put(&names::SPANS, vec![outcome.into()], count);
        }
    }

    fn put_published(&self, picture: &mut Picture) {
        for place in self.desk.places() {
            let cluster = lanes::shared(&place.publish().cluster);
            let counted = place.published().counted();
            for (outcome, count) in [
                ("written", counted.written),
                ("refused", counted.refused),
                ("timed_out", counted.timed_out),
                ("unavailable", counted.unavailable),
            ] {
                let labels = vec![(&cluster).into(), outcome.into()];
                picture.put(&names::PUBLISHED, labels, count);
            }
            let labels = || vec![(&cluster).into()];
            picture.put(&names::PUBLISHED_BYTES, labels(), counted.bytes);
            picture.put(&names::PUBLISH_IN_FLIGHT, labels(), place.in_flight());
        }
    }
}

/// Asks one subscription.
async fn ask(handle: &Handle) -> (Handle, Answer) {
    let answer = match timeout(ANSWERS_WITHIN, handle.measure()).await {
        Ok(Ok(measured)) => Answer::Now(Box::new(measured), handle.state()),
        // It had counted before it stopped.
        Ok(Err(Stopped)) => handle.last().map_or(Answer::Late, |meter| {
            let measured = Measured {
                meter,
                ..Measured::default()
            };
            Answer::Now(Box::new(measured), State::Stopped)
        }),
        Err(_elapsed) => Answer::Late,
    };
    (handle.clone(), answer)
}

/// Puts the sums of each cluster into the picture. How many have not answered.
fn sum_ad_hoc(
    picture: &mut Picture,
    all: &mut Vec<Lanes>,
    answers: Vec<(Handle, Answer)>,
    past: BTreeMap<String, crate::consumer::Meter>,
) -> u64 {
    let mut missing = 0;
    let mut sums: BTreeMap<String, Option<(Whole, Vec<_>)>> = BTreeMap::new();
    for (cluster, meter) in past {
        sums.insert(cluster, Some((Whole::past(meter), Vec::new())));
    }
    for (handle, answer) in answers {
        let cluster = handle.subscription().cluster.clone();
        let sum = sums.entry(cluster).or_insert_with(|| Some(<_>::default()));
        match (answer, sum) {
            (Answer::Now(measured, state), Some((whole, lanes))) => {
                whole.add(&measured, &state);
                lanes.extend(measured.lanes);
            }
            (Answer::Now(..), None) => {}
            (Answer::Late, sum) => {
                missing += 1;
                *sum = None;
            }
        }
    }
    for (cluster, sum) in sums {
        let Some((whole, lanes)) = sum else { continue };
        let names = [AD_HOC.into(), (&lanes::shared(&cluster)).into()];
        whole.put(picture, &names);
        all.push(Lanes {
            names,
            summed: Some(AD_HOC),
            lanes,
        });
    }
    missing
}
