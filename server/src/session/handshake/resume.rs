//! `Open.resume`: what a subscriber says it still works on. Only its size and its form
//! are checked; what is not true in it does no harm.

use ackgate_lane::{Offset, OffsetRange, ResumeResult};
use ackgate_proto::v1;
use tonic::Status;

use super::super::{convert, status::Reason};
use crate::consumer::{Held, Manifest, Resumed};

/// Most runs in one manifest.
const MOST_RUNS: usize = 10_000;

/// Longest token that is worth a look: this gateway's have 32 bytes.
const LONGEST_TOKEN: usize = 256;

/// Kafka's longest topic name.
const LONGEST_TOPIC: usize = 249;

/// Reads a manifest.
pub(super) fn manifest(resume: v1::Resume) -> Result<Manifest, Status> {
    if resume.held.len() > MOST_RUNS {
        return Err(Reason::ManifestTooLarge.field(
            "open.resume.held",
            "has more than 10000 runs; name the others no more: they will be delivered again",
        ));
    }
    if resume.token.len() > LONGEST_TOKEN {
        return Err(Reason::OpenInvalid.field("open.resume.token", "is no token of a gateway"));
    }
    let held = resume
        .held
        .into_iter()
        .map(held)
        .collect::<Result<_, _>>()?;
    Ok(Manifest {
        token: resume.token,
        held,
    })
}

fn held(held: v1::Held) -> Result<Held, Status> {
    if held.topic.len() > LONGEST_TOPIC {
        let field = "open.resume.held.topic";
        let text = format!(
            "is no topic name: {:?}",
            convert::printable(&held.topic, LONGEST_TOPIC)
        );
        return Err(Reason::OpenInvalid.field(field, &text));
    }
    let offset = |offset: i64| u64::try_from(offset).ok().map(Offset::new);
    let range = offset(held.first_offset)
        .zip(offset(held.last_offset))
        .and_then(|(first, last)| OffsetRange::inclusive(first, last));
    Ok(Held {
        topic: held.topic,
        partition: held.partition,
        epoch: held.epoch,
        range,
        offsets: (held.first_offset, held.last_offset),
        delivery: held.delivery,
    })
}

/// An answer to a part of a manifest.
pub(in crate::session) fn answer(resumed: Resumed) -> v1::ResumeAnswer {
    let result = match resumed.result {
        ResumeResult::Kept => v1::ResumeResult::Kept,
        ResumeResult::Settled => v1::ResumeResult::Settled,
        ResumeResult::Lost => v1::ResumeResult::Lost,
    };
    v1::ResumeAnswer {
        topic: resumed.topic.to_string(),
        partition: resumed.partition,
        first_offset: resumed.first,
        last_offset: resumed.last,
        result: result.into(),
        lane: resumed.lane,
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;

    use super::*;

    fn run(first_offset: i64, last_offset: i64) -> v1::Held {
        v1::Held {
            topic: "orders".to_owned(),
            first_offset,
            last_offset,
            ..v1::Held::default()
        }
    }

    fn resume(held: Vec<v1::Held>) -> v1::Resume {
        v1::Resume {
            token: "token".to_owned(),
            held,
        }
    }

    #[test]
    fn manifest_of_too_many_runs_is_refused_with_its_limit() {
        let most = resume(vec![run(0, 1); MOST_RUNS]);
        assert_eq!(manifest(most).expect("just so").held.len(), MOST_RUNS);
        let status = manifest(resume(vec![run(0, 1); MOST_RUNS + 1])).expect_err("one more");
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(status.message().contains("10000"), "{status:?}");
        let details = status.get_error_details();
        let info = details.error_info().expect("an error info");
        assert_eq!(info.reason, "MANIFEST_TOO_LARGE");
    }

    #[test]
    fn runs_that_are_none_are_kept_to_be_answered_as_lost() {
        for (first, last) in [(-1, 4), (5, 4), (0, -1), (i64::MIN, i64::MAX)] {
            let manifest = manifest(resume(vec![run(first, last)])).expect("harmless");
            let held = manifest.held.first().expect("one");
            assert_eq!((held.range, held.offsets), (None, (first, last)));
        }
    }

    #[test]
    fn names_and_tokens_beyond_any_sense_are_refused() {
        let mut long = run(0, 0);
        long.topic = "t".repeat(LONGEST_TOPIC + 1);
        assert!(manifest(resume(vec![long])).is_err());
        let token = v1::Resume {
            token: "t".repeat(LONGEST_TOKEN + 1),
            held: Vec::new(),
        };
        assert!(manifest(token).is_err());
    }
}
