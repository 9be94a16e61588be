//! All gateways of a subscriber: finds them, keeps a link to each, and ends when all links
//! have.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::{Id, JoinSet},
    time::{self, Instant},
};

use crate::{
    Error,
    dial::Target,
    link::{Link, Outcome, Shared},
    session,
    tries::Tries,
};

/// How often names are looked up, and gateways tried again that had been given up.
const REFRESH: Duration = Duration::from_secs(30);

/// Least time between two looks.
const REFRESH_PAUSE: Duration = Duration::from_secs(1);

/// Told once: the first session is open, or there will be none.
type Ready = oneshot::Sender<Result<(), Error>>;

/// The links of a subscriber.
struct Hub {
    shared: Arc<Shared>,
    ready: Option<Ready>,
    tasks: JoinSet<Outcome>,
    /// By task.
    links: HashMap<Id, Arc<Link>>,
    /// Gateways that had nothing left.
    drained: Vec<Target>,
    /// What became of the goodbyes.
    closed: Result<(), Error>,
    /// Gateways that were given up, and why: they are tried again at the next look.
    given_up: Vec<(Target, Error)>,
}

/// Keeps the subscriber subscribed. Returns what became of the goodbyes.
pub(crate) async fn run(shared: Shared, ready: Ready) -> Result<(), Error> {
    let mut hub = Hub {
        shared: Arc::new(shared),
        ready: Some(ready),
        tasks: JoinSet::new(),
        links: HashMap::new(),
        drained: Vec::new(),
        closed: Ok(()),
        given_up: Vec::new(),
    };
    match hub.keep().await {
        Ok(()) => hub.closed,
        Err(error) => {
            hub.give_up(error).await;
            Ok(())
        }
    }
}

impl Hub {
    async fn keep(&mut self) -> Result<(), Error> {
        if !self.first().await? {
            return Ok(());
        }
        let mut closing = self.shared.closing.clone();
        let mut refresh_at = Instant::now() + REFRESH;
        let mut looked = Instant::now();
        // With fixed addresses there is nothing to look up when a stream is lost.
        let has_names = self.shared.dialer.has_names();
        let mut is_resolved = true;
        loop {
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                () = shared.opened.notified(), if self.ready.is_some() => self.tell(Ok(())),
                Some(ended) = self.tasks.join_next_with_id() => {
                    let (id, outcome) = match ended {
                        Ok((id, outcome)) => (id, outcome),
                        // It panicked, or the runtime ends.
                        Err(error) => (error.id(), Outcome::GaveUp(Error::Ended)),
                    };
                    self.ended(id, outcome);
                    if self.links.is_empty() {
                        return match self.given_up.pop() {
                            Some((_, error)) if !*closing.borrow() => Err(error),
                            Some(_) | None => Ok(()),
                        };
                    }
                    self.split();
                }
                () = shared.lost.notified(), if has_names => {
                    refresh_at = refresh_at.min(looked + REFRESH_PAUSE);
                }
                () = time::sleep_until(refresh_at), if !*closing.borrow() => {
                    let targets = tokio::select! {
                        targets = shared.dialer.targets() => targets,
                        () = session::closed(&mut closing) => continue,
                    };
                    match targets {
                        Ok(targets) => {
                            is_resolved = true;
                            self.follow(targets);
                        }
                        // That leaves everything as it is.
                        Err(error) => {
                            if std::mem::replace(&mut is_resolved, false) {
                                tracing::warn!(%error, "no name resolves; the gateways stay");
                            }
                        }
                    }
                    looked = Instant::now();
                    refresh_at = looked + REFRESH;
                }
            }
        }
    }

    /// Finds the first gateways; false: the subscriber was closed before.
    async fn first(&mut self) -> Result<bool, Error> {
        let mut closing = self.shared.closing.clone();
        let mut tries = Tries::new(self.shared.options.retry, "subscriber");
        loop {
            let targets = tokio::select! {
                targets = self.shared.dialer.targets() => targets,
                () = session::closed(&mut closing) => return Ok(false),
            };
            let error = match targets {
                Ok(targets) => {
                    self.follow(targets);
                    return Ok(true);
                }
                Err(error) => error,
            };
            let Some(delay) = tries.after_failure(&error, false) else {
                return Err(tries.gave_up(error));
            };
            tries.note(&error, delay, false);
            tokio::select! {
                () = time::sleep(delay) => {}
                () = session::closed(&mut closing) => return Ok(false),
            }
        }
    }

    /// Begins links to gateways that are new, and lets those go that are none any more once
    /// their stream is lost.
    fn follow(&mut self, targets: Vec<Target>) {
        for link in self.links.values() {
            link.wanted.store(targets.contains(&link.target), Relaxed);
        }
        let known = |target: &Target| {
            self.drained.contains(target) || self.links.values().any(|it| it.target == *target)
        };
        let new: Vec<Target> = targets.into_iter().filter(|it| !known(it)).collect();
        // Before the first of them asks for its share.
        self.shared.roll.split(self.links.len() + new.len());
        self.given_up.retain(|(target, _)| !new.contains(target));
        for target in new {
            let link = Arc::new(Link::new(Arc::clone(&self.shared), target));
            let task = self.tasks.spawn(Arc::clone(&link).run());
            self.links.insert(task.id(), link);
        }
    }

    fn ended(&mut self, id: Id, outcome: Outcome) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        match outcome {
            Outcome::Gone => tracing::info!(gateway = link.name, "gateway gone"),
            Outcome::Closed(result) => {
                self.drained.push(link.target.clone());
                if self.closed.is_ok() {
                    self.closed = result;
                }
            }
            Outcome::GaveUp(error) => {
                let gateway = &link.name;
                if self.links.is_empty() {
                    // Whoever connects, or reads next, is told why.
                    tracing::debug!(gateway, %error, "no gateway is left: the subscriber ends");
                } else {
                    tracing::warn!(gateway, %error, "gateway given up for now; others are used");
                }
                self.given_up.push((link.target.clone(), error));
            }
        }
    }

    fn split(&self) {
        self.shared.roll.split(self.links.len());
    }

    /// Hands `error` to whoever waits: `connect`, or the next poll of the stream.
    async fn give_up(&mut self, error: Error) {
        if self.ready.is_some() {
            return self.tell(Err(error));
        }
        let mut closing = self.shared.closing.clone();
        tokio::select! {
            // Only a subscriber that is gone does not take it.
            _ = self.shared.queue.send(Err(error)) => {}
            () = session::closed(&mut closing) => {}
        }
    }

    fn tell(&mut self, result: Result<(), Error>) {
        if let Some(ready) = self.ready.take() {
            // A dropped receiver means that `connect` was cancelled, which also
            // drops the wish to go on.
            drop(ready.send(result));
        }
    }
}
