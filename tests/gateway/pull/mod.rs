//! Records without a stream: pull, settle, extend.

mod pull_ends;
mod pull_records;
mod pull_sessions;
mod pull_tools;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        pull_records::cases(),
        pull_sessions::cases(),
        pull_ends::cases(),
        pull_tools::cases(),
    ];
    cases.into_iter().flatten().collect()
}
