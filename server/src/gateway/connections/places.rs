//! Places for connections, and what happens when all are taken.
//!
//! A listener that anybody on the machine reaches without a word of who he is must not be
//! filled by peers that say nothing: there the connection on which nothing has moved for
//! the longest time makes room for the next one.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Time for a connection that is cut to leave its place.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// When something moved on a connection last.
#[derive(Debug)]
pub(super) struct Moved {
    begun: Instant,
    /// Microseconds from then on.
    last: AtomicU64,
}

impl Moved {
    /// Something moves.
    pub(super) fn now(&self) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last.store(micros, Ordering::Relaxed);
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

/// A place of one connection.
#[derive(Debug)]
pub(super) struct Place {
    #[allow(dead_code, reason = "held for its drop")]
    permit: OwnedSemaphorePermit,
    /// To be told what moves, if that counts.
    pub(super) moved: Option<Arc<Moved>>,
}

/// One that may have to make room. It stays here until it has gone, and is cut once.
#[derive(Debug)]
struct Taken {
    moved: Weak<Moved>,
    cut: CancellationToken,
}

/// All places of a listener.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    count: usize,
    begun: Instant,
    /// Those that are taken and some that were, oldest first; `None`: nobody makes room.
    taken: Option<Vec<Taken>>,
}

impl Places {
    pub(super) fn new(count: usize, make_room: bool) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            count,
            begun: Instant::now(),
            taken: make_room.then(Vec::new),
        }
    }

    /// A place for a connection that `cut` ends, if there is one.
    pub(super) fn take(&mut self, cut: &CancellationToken) -> Option<Place> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(self.given(permit, cut))
    }

    /// The same, once all are taken: the place of the connection that is quiet longest.
    pub(super) async fn take_over(&mut self, cut: &CancellationToken) -> Option<Place> {
        let taken = self.taken.as_mut()?;
        taken.retain(|it| it.moved.strong_count() > 0);
        let last = |it: &Taken| it.moved.upgrade().map_or(0, |moved| moved.last());
        let may_go = taken.iter().filter(|it| !it.cut.is_cancelled());
        may_go.min_by_key(|it| last(it))?.cut.cancel();
        let free = Arc::clone(&self.free).acquire_owned();
        let permit = timeout(LEAVES_WITHIN, free).await.ok()?.ok()?;
        Some(self.given(permit, cut))
    }

    fn given(&mut self, permit: OwnedSemaphorePermit, cut: &CancellationToken) -> Place {
        let moved = self.taken.as_mut().map(|taken| {
            if taken.len() >= 2 * self.count {
                taken.retain(|it| it.moved.strong_count() > 0);
            }
            let moved = Arc::new(Moved {
                begun: self.begun,
                last: AtomicU64::default(),
            });
            moved.now();
            taken.push(Taken {
                moved: Arc::downgrade(&moved),
                cut: cut.clone(),
            });
            moved
        });
        Place { permit, moved }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_quietest_makes_room() {
        let mut places = Places::new(2, true);
        let cuts = [(); 4].map(|()| CancellationToken::new());
        let first = places.take(&cuts[0]).expect("a place");
        sleep(Duration::from_secs(1)).await;
        let second = places.take(&cuts[1]).expect("a place");
        sleep(Duration::from_secs(1)).await;
        first.moved.as_ref().expect("it counts").now();
        assert!(places.take(&cuts[2]).is_none(), "there are two");
        let leaves = async {
            cuts[1].cancelled().await;
            drop(second);
        };
        let (third, ()) = tokio::join!(places.take_over(&cuts[2]), leaves);
        assert!(third.is_some() && !cuts[0].is_cancelled());
        // One that does not leave keeps its place.
        assert!(places.take_over(&cuts[3]).await.is_none());
        assert!(cuts[0].is_cancelled() && !cuts[2].is_cancelled());
        drop(first);
        assert!(places.take(&cuts[3]).is_some());
    }

    #[tokio::test]
    async fn nobody_makes_room_unless_asked_to_and_the_gone_are_forgotten() {
        let cut = CancellationToken::new();
        let mut places = Places::new(1, false);
        let _place = places.take(&cut).expect("a place");
        assert!(places.take_over(&cut).await.is_none());
        assert!(!cut.is_cancelled());
        let mut places = Places::new(1, true);
        for _ in 0..10 {
            drop(places.take(&cut).expect("a place"));
        }
        assert!(places.taken.is_some_and(|taken| taken.len() <= 2));
    }
}
