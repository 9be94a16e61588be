//! Records that publishers write through the gateway: every byte arrives, every record
//! has its result in order, and what is refused says why.

use ackgate_proto::v1::{Header, PublishError, PublishOptions, PublishResult};

use crate::support::{Case, Gateway, Publishing, Stage};

mod publish_refused;
mod publish_written;

pub(crate) fn cases() -> Vec<Case> {
    [publish_written::cases(), publish_refused::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// A gateway that takes records for everything that begins with the stage's name.
pub(crate) async fn publishing(stage: &Stage, more: &str) -> Gateway {
    let top = format!(
        "clusters.main.publish.topics = [\"{}\"]\n{more}",
        stage.named("*")
    );
    Gateway::start_with(stage, &[], &top).await
}

pub(crate) async fn open(gateway: &Gateway) -> Publishing {
    Publishing::open(gateway.address, PublishOptions::default()).await
}

pub(crate) fn error(result: &PublishResult) -> PublishError {
    PublishError::try_from(result.error).expect("an error that is known")
}

pub(crate) fn written(result: &PublishResult) -> (i32, i64) {
    assert_eq!(error(result), PublishError::Unspecified, "{result:?}");
    let place = result.partition.zip(result.offset);
    place.unwrap_or_else(|| panic!("no place in {result:?}"))
}

/// A header of a record.
fn header(key: &str, value: Option<&'static [u8]>) -> Header {
    Header {
        key: key.to_owned(),
        value: value.map(Into::into),
    }
}
