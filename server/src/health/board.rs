//! What is told of each service: its status now, and when it changes.
//!
//! **Invariant**: everything is "not serving" until it is set, and for good once the
//! gateway drains, whoever still sets something.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Where statuses are read. Clones are one.
#[derive(Clone, Debug)]
pub(super) struct Board {
    services: Arc<BTreeMap<String, watch::Receiver<bool>>>,
    over: CancellationToken,
}

/// Where they are set. Clones are one.
#[derive(Clone, Debug)]
pub(super) struct Pen {
    services: Arc<BTreeMap<String, watch::Sender<bool>>>,
    draining: Arc<Mutex<bool>>,
}

/// A board for the services of these names, and what sets them. Watchers are told the
/// end when `over` is cancelled.
pub(super) fn board(
    names: impl IntoIterator<Item = String>,
    over: CancellationToken,
) -> (Pen, Board) {
    let (mut senders, mut receivers) = (BTreeMap::new(), BTreeMap::new());
    for name in names {
        let (sender, receiver) = watch::channel(false);
        senders.insert(name.clone(), sender);
        receivers.insert(name, receiver);
    }
    let pen = Pen {
        services: Arc::new(senders),
        draining: Arc::default(),
    };
    let board = Board {
        services: Arc::new(receivers),
        over,
    };
    (pen, board)
}

impl Board {
    /// The status of a service, and its changes; `None`: there is no such service.
    pub(super) fn status(&self, service: &str) -> Option<watch::Receiver<bool>> {
        self.services.get(service).cloned()
    }

    /// Resolves when nothing changes any more because the gateway ends.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }
}

impl Pen {
    /// Sets whether a service can serve. While the gateway drains none can.
    pub(super) fn set(&self, service: &str, serving: bool) {
        // Held, so that no word from before the drain arrives after it.
        let draining = self.draining.lock();
        if let Some(status) = self.services.get(service) {
            write(status, serving && !*draining);
        }
    }

    /// Whether the gateway drains.
    pub(super) fn is_draining(&self) -> bool {
        *self.draining.lock()
    }

    /// From here on no service can serve.
    pub(super) fn drain(&self) {
        *self.draining.lock() = true;
        for status in self.services.values() {
            write(status, false);
        }
    }
}

fn write(status: &watch::Sender<bool>, serving: bool) {
    status.send_if_modified(|before| std::mem::replace(before, serving) != serving);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_serves_before_it_is_set_nor_once_the_gateway_drains() {
        let names = ["a".to_owned(), "b".to_owned()];
        let (pen, board) = board(names, CancellationToken::new());
        let now = |name| board.status(name).map(|status| *status.borrow());
        assert_eq!(
            (now("a"), now("b"), now("c")),
            (Some(false), Some(false), None)
        );
        pen.set("a", true);
        assert_eq!((now("a"), now("b")), (Some(true), Some(false)));
        pen.drain();
        pen.set("a", true);
        assert_eq!(now("a"), Some(false), "a late word changes nothing");
    }

    #[test]
    fn only_changes_are_told() {
        let (pen, board) = board(["a".to_owned()], CancellationToken::new());
        let status = board.status("a").unwrap();
        pen.set("a", false);
        assert!(!status.has_changed().unwrap());
        pen.set("a", true);
        assert!(status.has_changed().unwrap());
    }
}
