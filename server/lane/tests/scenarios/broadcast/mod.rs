//! Stories of a broadcast lane, one file per subject.

mod counts;
mod leaving;
mod order;
mod slow;
mod stopped;
mod support;
