//! Panics as lines of the log, and those that are expected of a library as none.
//!
//! A panic's own text on standard error would have line breaks of its own, and would be no
//! JSON. What panics again and again is told a few times in half a minute, by its place.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    cell::Cell,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
    thread,
    time::Instant,
};

use parking_lot::Mutex;

use super::flood::{Flood, Line};

/// Panics at one place that are told in half a minute.
const MOST: u32 = 3;

/// By place in the sources.
static FLOOD: Mutex<Flood<String>> = Mutex::new(Flood::new());

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// From now on panics are told by the log and not on standard error.
pub(crate) fn to_log() {
    panic::set_hook(Box::new(|info| {
        if !QUIET.get() {
            tell(info);
        }
    }));
}

/// What `work` gives; `None` if it panics, which nobody is told of: its text may quote
/// records, and a backtrace each time would cost more than the panic.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    let was_quiet = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(was_quiet);
    result.ok()
}

fn tell(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "unknown".to_owned());
    // Never waited for: the panic may be of whoever holds it.
    let line = FLOOD.try_lock().map(|mut flood| {
        let other = "elsewhere".to_owned();
        flood.take(place.clone(), other, MOST, Instant::now())
    });
    let count = match line {
        Some(Line::LeftOut) => return,
        Some(Line::Told { left_out: 0 }) | None => None,
        Some(Line::Told { left_out }) => Some(left_out),
    };
    let error = info.payload_as_str().unwrap_or("a value of no text");
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    // Only where `RUST_BACKTRACE` asks for it.
    let backtrace = Backtrace::capture();
    let backtrace = matches!(backtrace.status(), BacktraceStatus::Captured)
        .then(|| tracing::field::display(&backtrace));
    tracing::error!(
        place,
        thread,
        error,
        count,
        backtrace,
        "a part of the gateway panicked"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_panic_is_none_and_the_next_is_not_quiet() {
        assert_eq!(quietly(|| 1), Some(1));
        assert_eq!(quietly::<u8>(|| panic!("on purpose")), None);
        assert!(!QUIET.get());
        let within = quietly(|| {
            let inner = quietly::<u8>(|| panic!("on purpose"));
            (inner, QUIET.get())
        });
        assert_eq!(within, Some((None, true)), "the outer one goes on");
    }
}
