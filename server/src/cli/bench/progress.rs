//! What the user sees while a benchmark runs.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `records` on standard error, hidden where that is no terminal.
pub(super) fn bar(what: &str, records: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{msg:22} {wide_bar} {human_pos}/{human_len} {per_sec}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(records)
        .with_style(style)
        .with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
