//! Every subscription that runs in this gateway: those of the configuration, and those
//! that subscribers have opened ad hoc.
//!
//! Boundary: finds or makes a subscription's driver; knows neither gRPC nor Kafka's
//! client. **Invariants**: of one cluster, group and set of topics there is one driver;
//! a group on a cluster reads one set of topics at a time; whoever holds a [`Lease`]
//! finds its driver running, because attaching and retiring are decided under one lock.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    broker::{self, Producer},
    config::{AdHoc, Cluster, Contradiction, Denied, Refusal, Subscription, Wishes},
    consumer::{Budget, Handle, Meter, Parts, Wall},
    telemetry::traces::Tracer,
};

mod ad_hoc;
mod keeper;
mod places;
#[cfg(test)]
mod tests;

use ad_hoc::{Group, Running};
use places::Places;

/// Topics of one opening.
pub const MAX_TOPICS: usize = 100;

/// How long an opening waits for an earlier subscription of its group to leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(15);

/// What a subscription's driver is built from that costs time or may be refused.
pub trait Make: Send + Sync + fmt::Debug {
    /// Makes the parts. May block, never on a broker.
    ///
    /// # Errors
    /// The client library refuses the settings.
    fn make(&self, subscription: &Subscription, source: Source) -> Result<Made, broker::Error>;
}

/// Where a subscription comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the configuration.
    Declared,
    /// From an opening.
    AdHoc,
}

/// A driver's connections.
#[derive(Debug)]
pub struct Made {
    /// Makes its consumers.
    pub connect: Arc<dyn broker::Connect>,
    /// Writes its dead letters; `None` if the policy needs none.
    pub producer: Option<Arc<dyn Producer>>,
    /// Takes its spans.
    pub tracer: Tracer,
}

/// What a session wants to attach to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A subscription of the configuration.
    Named {
        /// Its name.
        name: String,
        /// What the subscriber relies on.
        expect: Wishes,
    },
    /// A cluster's topics in a group.
    AdHoc(Wanted),
}

/// What an ad hoc opening names. Topics and group are valid names.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// A cluster's name.
    pub cluster: String,
    /// Sorted, without repeats, 1 to [`MAX_TOPICS`].
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// What it asks of the options.
    pub wishes: Wishes,
}

/// Why there is nothing to attach to.
#[derive(Clone, Debug)]
pub enum Refused {
    /// The gateway stops.
    Stopping,
    /// The configuration has no subscription of this name.
    UnknownSubscription,
    /// Nothing may be opened ad hoc.
    Off,
    /// The configuration has no cluster of this name.
    UnknownCluster,
    /// The configuration does not allow it.
    Denied(Denied),
    /// The options cannot stand.
    Options(Vec<Refusal>),
    /// The subscription runs with other options.
    Contradicts(Vec<Contradiction>),
    /// The group reads another set of topics.
    GroupTaken,
    /// An earlier subscription of the group takes long to leave it.
    Leaving,
    /// As many as are allowed run already.
    Full(usize),
    /// The client library refuses the settings.
    Settings(broker::Error),
}

/// All subscriptions. Clones are one.
#[derive(Clone, Debug)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Option<AdHoc>,
    places: Places,
    make: Arc<dyn Make>,
    budget: Budget,
    stalled_after: Duration,
    origin: Instant,
    declared: HashMap<String, Handle>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    ad_hoc: HashMap<Group, Running>,
    /// What ad hoc subscriptions that have ended had counted, by cluster.
    past: BTreeMap<String, Meter>,
    producers: Vec<Arc<dyn Producer>>,
}

/// What there is to be measured.
#[derive(Debug)]
pub struct Measurable {
    /// The subscriptions of the configuration, by name.
    pub declared: Vec<Handle>,
    /// The ad hoc ones.
    pub ad_hoc: Vec<Handle>,
    /// What earlier ad hoc ones had counted, by cluster, for each cluster where there can be
    /// any. None of them is in `ad_hoc`.
    pub past: BTreeMap<String, Meter>,
}

/// What runs when the gateway stops.
#[derive(Debug)]
pub struct Closing {
    /// Every subscription, by name.
    pub subscriptions: Vec<(String, Handle)>,
    /// What writes for them.
    pub producers: Vec<Arc<dyn Producer>>,
}

/// Keeps an ad hoc subscription running while somebody may attach to it.
#[derive(Debug)]
pub struct Lease(Option<Arc<watch::Sender<usize>>>);

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(users) = &self.0 {
            users.send_modify(|users| *users = users.saturating_sub(1));
        }
    }
}

impl Registry {
    /// Makes and starts the drivers of the configuration's subscriptions, whose lanes are
    /// told as stalled after so long without progress. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The first subscription whose settings the client library refuses, and why.
    pub fn start(
        declared: Vec<Subscription>,
        rules: Option<AdHoc>,
        clusters: &[Cluster],
        budget: Budget,
        stalled_after: Duration,
        make: Arc<dyn Make>,
    ) -> Result<Self, (String, broker::Error)> {
        let origin = Instant::now();
        let mut shared = Shared {
            rules,
            places: Places::of(clusters),
            make,
            budget,
            stalled_after,
            origin,
            declared: HashMap::new(),
            state: Mutex::default(),
        };
        for subscription in declared {
            let name = subscription.name.clone();
            let made = shared.make.make(&subscription, Source::Declared);
            let made = made.map_err(|error| (name.clone(), error))?;
            let handle = shared.spawn(subscription, &made);
            shared.state.get_mut().producers.extend(made.producer);
            shared.declared.insert(name, handle);
        }
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// How many subscriptions the configuration has.
    #[must_use]
    pub fn declared(&self) -> usize {
        self.shared.declared.len()
    }

    /// Finds what is wanted, or makes it. The lease is to be kept until the driver has
    /// been told that the session has ended.
    ///
    /// # Errors
    /// Why there is nothing to attach to.
    pub async fn open(&self, target: Target) -> Result<(Handle, Lease), Refused> {
        match target {
            Target::Named { name, expect } => {
                if self.shared.state.lock().closed {
                    return Err(Refused::Stopping);
                }
                let handle = self.shared.declared.get(&name);
                let handle = handle.ok_or(Refused::UnknownSubscription)?;
                agree(handle, &expect)?;
                Ok((handle.clone(), Lease(None)))
            }
            Target::AdHoc(wanted) => self.open_ad_hoc(wanted).await,
        }
    }

    /// Every subscription that runs now, by name.
    #[must_use]
    pub fn running(&self) -> Vec<(String, Handle)> {
        let declared = self.shared.declared.iter();
        let mut running: Vec<_> = declared
            .map(|(name, handle)| (name.clone(), handle.clone()))
            .collect();
        for one in self.shared.state.lock().ad_hoc.values() {
            running.push((one.handle.subscription().name.clone(), one.handle.clone()));
        }
        running.sort_by(|(a, _), (b, _)| a.cmp(b));
        running
    }

    /// What there is to be measured. A driver is either among the handles or its counts are
    /// in the past, so that sums over both never go back.
    #[must_use]
    pub fn measurable(&self) -> Measurable {
        let mut declared: Vec<Handle> = self.shared.declared.values().cloned().collect();
        declared.sort_by(|a, b| a.subscription().name.cmp(&b.subscription().name));
        let clusters = self.shared.rules.iter().flat_map(AdHoc::clusters);
        let none = clusters.map(|name| (name.to_owned(), Meter::default()));
        let mut past: BTreeMap<String, Meter> = none.collect();
        let state = self.shared.state.lock();
        past.extend(state.past.clone());
        Measurable {
            declared,
            ad_hoc: state.ad_hoc.values().map(|it| it.handle.clone()).collect(),
            past,
        }
    }

    /// The memory of all lanes.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// From now on nothing can be attached to. Returns what runs.
    #[must_use]
    pub fn close(&self) -> Closing {
        let mut state = self.shared.state.lock();
        state.closed = true;
        let declared = self.shared.declared.iter();
        let mut subscriptions: Vec<_> = declared
            .map(|(name, handle)| (name.clone(), handle.clone()))
            .collect();
        let mut producers = state.producers.clone();
        for one in state.ad_hoc.values() {
            subscriptions.push((one.handle.subscription().name.clone(), one.handle.clone()));
            producers.extend(one.producer.clone());
        }
        Closing {
            subscriptions,
            producers,
        }
    }
}

impl Shared {
    fn spawn(&self, subscription: Subscription, made: &Made) -> Handle {
        crate::consumer::spawn(Parts {
            subscription: Arc::new(subscription),
            connect: Arc::clone(&made.connect),
            producer: made.producer.clone(),
            budget: self.budget.clone(),
            origin: self.origin,
            wall: Wall::system(),
            tracer: made.tracer.clone(),
            stalled_after: self.stalled_after,
        })
    }
}

fn agree(running: &Handle, wishes: &Wishes) -> Result<(), Refused> {
    let contradictions = wishes.contradictions(running.subscription());
    if contradictions.is_empty() {
        Ok(())
    } else {
        Err(Refused::Contradicts(contradictions))
    }
}
