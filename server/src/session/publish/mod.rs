//! Publishers' streams and calls: opening, records in, results out. The gRPC side of
//! [`crate::publish`], which decides what is taken.

mod batch;
mod opening;
mod reader;
mod record;
mod stream;
mod writer;

pub(super) use batch::batch;
pub(super) use stream::run;
