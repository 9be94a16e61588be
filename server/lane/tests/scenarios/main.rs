//! Stories of one lane, one file per behaviour.

mod commit;
mod support;
