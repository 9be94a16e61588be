//! Publishers' streams and calls: opening, records in, results out. The gRPC side of
//! [`crate::publish`], which decides what is taken.

mod batch;
mod opening;
mod reader;
mod record;
mod stream;
mod too_large;
mod writer;

pub(super) use batch::batch;
pub(super) use stream::run;
pub(crate) use too_large::with_reason;
