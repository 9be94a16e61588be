//! Fail points: places at which tests end this process as a power cut would, or stop it.
//!
//! Boundary: only with the cargo feature `fail-points`, which no release has; without it
//! a point is nothing at all, and the variable is not looked at.

/// Names the point and, behind a colon, at which pass of it the process dies: the first
/// unless said otherwise. With `:stop` behind that it stops, until it is sent `CONT`.
/// Kept out of other builds, which is how they are told apart.
#[cfg(feature = "fail-points")]
const VARIABLE: &str = "ACKGATE_FAIL_POINT";

/// Every point that there is. `transaction.*` are passed with exactly-once alone.
#[cfg(feature = "fail-points")]
const NAMES: [&str; 11] = [
    "dead-letter.before-write",
    "dead-letter.enqueued",
    "dead-letter.confirmed",
    "dead-letter.settled",
    "commit.before",
    "commit.done",
    "transaction.begun",
    "transaction.produced",
    "transaction.offsets-sent",
    "transaction.committing",
    "transaction.committed",
];

/// Does nothing: fail points are not compiled in.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub const fn point(_name: &str) {}

/// Does nothing: fail points are not compiled in.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub const fn arm() {}

#[cfg(feature = "fail-points")]
pub use armed::{arm, point};

#[cfg(feature = "fail-points")]
mod armed {
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
        thread,
        time::{Duration, Instant},
    };

    use rustix::process::{Signal, getpid, kill_process};

    use super::{NAMES, VARIABLE};

    /// A signal may reach another thread first; the one at the point goes no further
    /// until it has stopped them all.
    const STOPS_WITHIN: Duration = Duration::from_secs(1);

    /// The point at which the process dies or stops.
    struct Armed {
        name: String,
        /// Passes that are left, the one that counts included.
        left: AtomicU64,
        stops: bool,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    /// Says in the log what is armed, so that nobody takes such a build for another.
    pub fn arm() {
        let armed = ARMED.get_or_init(read).as_ref();
        let at = armed.map_or("nothing", |armed| armed.name.as_str());
        tracing::warn!(
            point = at,
            "fail points are compiled in: this build is for tests only"
        );
    }

    /// Kills the process, without a chance to tidy up, or stops it, if it has been armed
    /// for this pass of `name`.
    pub fn point(name: &str) {
        debug_assert!(NAMES.contains(&name), "{name} is not listed");
        let Some(armed) = ARMED.get_or_init(read).as_ref() else {
            return;
        };
        if armed.name != name || armed.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        if armed.stops {
            let end = Instant::now() + STOPS_WITHIN;
            let _stopped = kill_process(getpid(), Signal::STOP);
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                thread::park_timeout(left);
            }
        } else {
            let _dead = kill_process(getpid(), Signal::KILL);
            loop {
                thread::park();
            }
        }
    }

    fn read() -> Option<Armed> {
        let value = std::env::var(VARIABLE).ok()?;
        let (point, stops) = match value.strip_suffix(":stop") {
            Some(point) => (point, true),
            None => (value.as_str(), false),
        };
        let (name, passes) = point.split_once(':').unwrap_or((point, "1"));
        let passes: Option<u64> = passes.parse().ok().filter(|passes| *passes > 0);
        let (true, Some(passes)) = (NAMES.contains(&name), passes) else {
            tracing::error!(point = value, "ACKGATE_FAIL_POINT names no fail point");
            std::process::exit(2);
        };
        Some(Armed {
            name: name.to_owned(),
            left: AtomicU64::new(passes),
            stops,
        })
    }
}
