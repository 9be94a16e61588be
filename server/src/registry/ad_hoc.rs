//! Ad hoc subscriptions: found by cluster, group and topics, or made.

use std::sync::Arc;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    LEAVES_WITHIN, Lease, Made, Refused, Registry, Shared, Source, State, Wanted, agree, keeper,
    places::Place,
};
use crate::{
    broker::{self, ErrorKind, Producer},
    config::{AdHoc, Subscription},
    consumer::Handle,
};

/// A consumer group where Kafka sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) place: Place,
    pub(super) name: String,
}

/// An ad hoc subscription.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) handle: Handle,
    pub(super) producer: Option<Arc<dyn Producer>>,
    /// How many leases there are. Goes up under the lock only.
    pub(super) users: Arc<watch::Sender<usize>>,
    /// Nobody attaches any more; it is gone once its driver has stopped.
    pub(super) retired: bool,
}

/// What to do next about an opening.
enum Step {
    Attach(Handle, Lease),
    /// Until this is closed.
    Wait(watch::Receiver<usize>),
    Make,
}

impl Registry {
    pub(super) async fn open_ad_hoc(&self, wanted: Wanted) -> Result<(Handle, Lease), Refused> {
        let rules = self.shared.rules.as_ref().ok_or(Refused::Off)?;
        let place = self.shared.places.find(&wanted.cluster);
        let group = Group {
            place: place.ok_or(Refused::UnknownCluster)?,
            name: wanted.group.clone(),
        };
        rules
            .allows(
                &wanted.cluster,
                &wanted.topics,
                &wanted.group,
                &wanted.wishes,
            )
            .map_err(Refused::Denied)?;
        let deadline = Instant::now() + LEAVES_WITHIN;
        let mut made = None;
        loop {
            match Shared::step(&self.shared, rules, &wanted, &group, &mut made)? {
                Step::Attach(handle, lease) => return Ok((handle, lease)),
                Step::Wait(mut users) => {
                    // An error of the channel is what is waited for: it has gone.
                    let gone = async { while users.changed().await.is_ok() {} };
                    let waited = timeout_at(deadline, gone).await;
                    waited.map_err(|_elapsed| Refused::Leaving)?;
                }
                Step::Make => made = Some(self.make(wanted.clone()).await?),
            }
        }
    }

    /// Compiling a filter takes time, and making clients of the library may read files:
    /// not on the runtime's threads.
    async fn make(&self, wanted: Wanted) -> Result<(Box<Subscription>, Made), Refused> {
        let shared = Arc::clone(&self.shared);
        let making = tokio::task::spawn_blocking(move || shared.make_for(&wanted));
        making.await.unwrap_or_else(|error| {
            Err(Refused::Settings(broker::Error {
                kind: ErrorKind::Transient,
                detail: format!("making the clients ended early: {error}"),
            }))
        })
    }
}

impl Shared {
    /// One look, under the lock: whoever comes out of it with a lease is attached, as
    /// far as [`Shared::retire`] is concerned.
    fn step(
        this: &Arc<Self>,
        rules: &AdHoc,
        wanted: &Wanted,
        group: &Group,
        made: &mut Option<(Box<Subscription>, Made)>,
    ) -> Result<Step, Refused> {
        let mut state = this.state.lock();
        if state.closed {
            return Err(Refused::Stopping);
        }
        if let Some(handle) = this.find_declared(wanted, group)? {
            agree(&handle, &wanted.wishes)?;
            return Ok(Step::Attach(handle, Lease(None)));
        }
        if let Some(running) = state.ad_hoc.get(group) {
            if running.retired {
                return Ok(Step::Wait(running.users.subscribe()));
            }
            if !is_same(running.handle.subscription(), wanted) {
                return Err(Refused::GroupTaken);
            }
            agree(&running.handle, &wanted.wishes)?;
            return Ok(running.attach());
        }
        if state.ad_hoc.len() >= rules.max_subscriptions {
            return Err(Refused::Full(rules.max_subscriptions));
        }
        match made.take() {
            None => Ok(Step::Make),
            Some((subscription, made)) => {
                let linger = subscription.linger;
                let handle = this.spawn(*subscription, &made);
                let running = Running::new(handle, made.producer);
                let step = running.attach();
                keeper::start(this, group.clone(), &running, linger);
                state.ad_hoc.insert(group.clone(), running);
                Ok(step)
            }
        }
    }

    /// What a driver for `wanted` is made of. Blocks.
    fn make_for(&self, wanted: &Wanted) -> Result<(Box<Subscription>, Made), Refused> {
        let rules = self.rules.as_ref().ok_or(Refused::Off)?;
        let Wanted {
            cluster,
            topics,
            group,
            wishes,
        } = wanted;
        // No name of the configuration has a slash.
        let name = format!("ad-hoc/{cluster}/{group}");
        let subscription = rules.subscription(name, cluster, topics, group, wishes);
        let subscription = subscription.map_err(Refused::Options)?;
        let made = self
            .make
            .make(&subscription, Source::AdHoc)
            .map_err(Refused::Settings)?;
        Ok((Box::new(subscription), made))
    }

    /// A subscription of the configuration that is what is wanted.
    fn find_declared(&self, wanted: &Wanted, group: &Group) -> Result<Option<Handle>, Refused> {
        let mut taken = false;
        for handle in self.declared.values() {
            let subscription = handle.subscription();
            let same_group = subscription.group == group.name
                && self.places.find(&subscription.cluster) == Some(group.place);
            if same_group && is_same(subscription, wanted) {
                return Ok(Some(handle.clone()));
            }
            taken |= same_group;
        }
        if taken {
            Err(Refused::GroupTaken)
        } else {
            Ok(None)
        }
    }

    /// Lets nobody attach from now on, unless somebody has.
    pub(super) fn retire(&self, group: &Group) -> bool {
        let mut state = self.state.lock();
        match state.ad_hoc.get_mut(group) {
            Some(running) if *running.users.borrow() == 0 => {
                running.retired = true;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Forgets a retired subscription that has stopped, but for what it had counted.
    pub(super) fn forget(&self, group: &Group) {
        let State { ad_hoc, past, .. } = &mut *self.state.lock();
        let Some(running) = ad_hoc.remove(group) else {
            return;
        };
        if let Some(last) = running.handle.last() {
            let cluster = running.handle.subscription().cluster.clone();
            past.entry(cluster).or_default().add(&last);
        }
    }
}

impl Running {
    fn new(handle: Handle, producer: Option<Arc<dyn Producer>>) -> Self {
        let (users, _) = watch::channel(0);
        Self {
            handle,
            producer,
            users: Arc::new(users),
            retired: false,
        }
    }

    fn attach(&self) -> Step {
        self.users.send_modify(|users| *users += 1);
        Step::Attach(self.handle.clone(), Lease(Some(Arc::clone(&self.users))))
    }
}

fn is_same(running: &Subscription, wanted: &Wanted) -> bool {
    running.cluster == wanted.cluster && running.topics == wanted.topics
}
