//! How a publisher wants its records written: `PublishOptions` become a place and terms.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ackgate_proto::v1;
use tonic::Status;

use crate::{
    broker::Write,
    config::Acks,
    publish::{Desk, NoPlace, Place, Terms},
    session::{convert, status::Reason},
    telemetry::troubles::{self, Trouble},
};

/// Most records in one message or call.
pub(super) const MOST_RECORDS: usize = 10_000;

const TIMEOUT: Duration = Duration::from_secs(30);

const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);

/// What a publisher may do from now on.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) place: Arc<Place>,
    pub(super) terms: Terms,
    pub(super) producer: Arc<dyn Write>,
}

/// Checks options and makes the producer if need be. `path` is where they stand in the
/// request.
pub(super) async fn open(
    desk: &Desk,
    options: &v1::PublishOptions,
    path: &str,
) -> Result<Opening, Status> {
    let (place, terms) = check(desk, options, path)?;
    let producer = place.producer(terms).await.map_err(|error| {
        let cluster = &place.publish().cluster;
        if let Some(count) = troubles::again(Trouble::Publishing) {
            tracing::error!(
                %error, cluster, count,
                "no producer for published records can be made"
            );
        }
        Reason::SettingsRefused.status(
            "the client library refuses the cluster's properties or those of `publish.producer`; \
             the gateway's log says why",
        )
    })?;
    Ok(Opening {
        place,
        terms,
        producer,
    })
}

fn check(
    desk: &Desk,
    options: &v1::PublishOptions,
    path: &str,
) -> Result<(Arc<Place>, Terms), Status> {
    let field = |name: &str| format!("{path}.{name}");
    let place = desk
        .place(&options.cluster)
        .map_err(|why| no_place(why, &field("cluster")))?;
    let Ok(acks) = v1::Acks::try_from(options.acks) else {
        return Err(Reason::OpenInvalid.field(&field("acks"), "is not a known value"));
    };
    let acks = match acks {
        v1::Acks::Unspecified => place.publish().acks,
        v1::Acks::All => Acks::All,
        v1::Acks::Leader => Acks::Leader,
        v1::Acks::None => Acks::None,
    };
    let is_idempotent = options
        .idempotence
        .unwrap_or_else(|| place.publish().is_idempotent(acks));
    if is_idempotent && acks != Acks::All {
        return Err(Reason::OpenInvalid.field(
            &field("idempotence"),
            "needs acks of all: a retry is recognised only where every replica has the record",
        ));
    }
    let timeout = match options.timeout.map(Duration::try_from) {
        None => TIMEOUT,
        Some(Ok(wanted)) if TIMEOUTS.contains(&wanted) => wanted,
        Some(_) => {
            return Err(Reason::OpenInvalid.field(&field("timeout"), "must be 100 ms to 5 min"));
        }
    };
    let terms = Terms {
        acks,
        is_idempotent,
        timeout,
    };
    Ok((place, terms))
}

fn no_place(why: NoPlace, field: &str) -> Status {
    match why {
        NoPlace::Unknown => Reason::UnknownCluster.field(field, "is not a cluster here"),
        NoPlace::Off => Reason::PublishOff.field(
            field,
            "takes no records: the configuration has no `publish` for it",
        ),
        NoPlace::Ambiguous => {
            Reason::ClusterAmbiguous.field(field, "must name one of the clusters that take records")
        }
    }
}

impl Opening {
    /// The options with all defaults filled in.
    pub(super) fn opened(&self) -> v1::PublishOpened {
        let publish = self.place.publish();
        let acks = match self.terms.acks {
            Acks::All => v1::Acks::All,
            Acks::Leader => v1::Acks::Leader,
            Acks::None => v1::Acks::None,
        };
        v1::PublishOpened {
            options: Some(v1::PublishOptions {
                cluster: publish.cluster.clone(),
                acks: acks.into(),
                idempotence: Some(self.terms.is_idempotent),
                timeout: convert::duration(self.terms.timeout),
            }),
            max_record_bytes: publish.max_record_bytes,
            max_in_flight_records: publish.max_in_flight_records,
            max_in_flight_bytes: publish.max_in_flight_bytes,
        }
    }
}

/// A message must have records, and not too many.
pub(super) fn check_number(records: usize, path: &str) -> Result<(), Status> {
    if (1..=MOST_RECORDS).contains(&records) {
        return Ok(());
    }
    Err(Reason::RecordsOutOfRange.field(path, "must be 1 to 10000 records"))
}
