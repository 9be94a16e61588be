//! What verdicts and extensions are answered that are malformed, late, repeated or many:
//! each alone, and the stream goes on.

use std::time::Duration;

use ackgate_proto::v1::{
    Extend, Extension, Outcome, Settle, Verdict, VerdictAnswer, VerdictResult,
    subscribe_request::Request,
};
use prost_types::Duration as Wire;
use tonic::Code;

use crate::support::{Case, Gateway, Received, Stage, Stream, cases, reason};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: verdict_without_a_known_outcome_is_refused_alone,
            malformed_verdicts_are_refused_alone,
            unknown_lane_and_offset_change_nothing,
            repeated_and_conflicting_verdicts_are_answered,
            superseded_delivery_is_stale,
            ten_thousand_verdicts_are_taken_and_no_more,
            ack_of_a_run_settles_all_of_it,
            overlapping_runs_settle_each_record_once,
            extension_moves_the_deadline;
    ]
}

/// A gateway with one topic of five records, and an open stream that has them.
pub(crate) async fn five(stage: &Stage) -> (Gateway, Stream, Vec<Received>) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(5).await;
    (gateway, stream, records)
}

fn results(answers: &[VerdictAnswer]) -> Vec<(i64, i64, VerdictResult, &str)> {
    answers
        .iter()
        .map(|one| {
            (
                one.first_offset,
                one.last_offset,
                one.result(),
                one.detail.as_str(),
            )
        })
        .collect()
}

async fn verdict_without_a_known_outcome_is_refused_alone(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    let unset = records[0].verdict(Outcome::Unspecified);
    let mut unknown = records[1].verdict(Outcome::Acked);
    unknown.outcome = 99;
    let good = records[2].verdict(Outcome::Acked);
    let settled = stream.settle(vec![unset, unknown, good]).await;
    assert_eq!(
        results(&settled.answers),
        [
            (0, 0, VerdictResult::Invalid, "OUTCOME_UNSPECIFIED"),
            (1, 1, VerdictResult::Invalid, "OUTCOME_UNKNOWN"),
        ]
    );
    // Neither was taken for anything: both still want their verdict.
    stream.answer_all(&records[..2], Outcome::Acked).await;
}

/// Verdicts that are wrong in one thing each, and what they are told.
fn malformed(plain: Verdict) -> Vec<(Verdict, &'static str)> {
    let range = |first_offset, last_offset| Verdict {
        first_offset,
        last_offset,
        ..plain.clone()
    };
    let retry_after = |seconds| Verdict {
        retry_after: Some(Wire { seconds, nanos: 0 }),
        ..plain.clone()
    };
    let delivery = Verdict {
        delivery: Some(0),
        ..plain.clone()
    };
    let code = Verdict {
        code: "c".repeat(129),
        ..plain.clone()
    };
    vec![
        (range(-1, None), "RANGE_INVALID"),
        (range(3, Some(2)), "RANGE_INVALID"),
        (range(0, Some(i64::MIN)), "RANGE_INVALID"),
        (delivery, "DELIVERY_INVALID"),
        (code, "CODE_TOO_LONG"),
        (retry_after(3_601), "RETRY_AFTER_OUT_OF_RANGE"),
        (retry_after(-1), "RETRY_AFTER_OUT_OF_RANGE"),
    ]
}

async fn malformed_verdicts_are_refused_alone(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    for (verdict, detail) in malformed(records[0].verdict(Outcome::Failed)) {
        let settled = stream.settle(vec![verdict.clone()]).await;
        assert_eq!(settled.answers.len(), 1, "{verdict:?}: {settled:?}");
        let answer = &settled.answers[0];
        assert_eq!(
            (answer.result(), answer.detail.as_str()),
            (VerdictResult::Invalid, detail)
        );
    }
    stream.answer_all(&records, Outcome::Acked).await;
}

// FC-32.
async fn unknown_lane_and_offset_change_nothing(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    let lane = Verdict {
        lane: 987_654_321,
        ..records[0].verdict(Outcome::Acked)
    };
    let offset = Verdict {
        first_offset: 100,
        ..records[0].verdict(Outcome::Acked)
    };
    let settled = stream
        .settle(vec![lane, offset, records[0].verdict(Outcome::Acked)])
        .await;
    assert_eq!(
        results(&settled.answers),
        [
            (0, 0, VerdictResult::Unknown, ""),
            (100, 100, VerdictResult::Unknown, "")
        ]
    );
    stream.answer_all(&records[1..], Outcome::Acked).await;
}

// FC-32, L5.
async fn repeated_and_conflicting_verdicts_are_answered(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    stream.ack(&records[1]).await;
    let settled = stream
        .settle(vec![records[1].verdict(Outcome::Acked)])
        .await;
    assert_eq!(
        results(&settled.answers),
        [(1, 1, VerdictResult::Duplicate, "")]
    );
    let settled = stream
        .settle(vec![records[1].verdict(Outcome::Rejected)])
        .await;
    assert_eq!(
        results(&settled.answers),
        [(1, 1, VerdictResult::Conflict, "")]
    );
    stream.ack(&records[0]).await;
}

// FC-32, L4.
async fn superseded_delivery_is_stale(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    stream.fail(&records[0]).await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.delivery), (0, 2));
    let late = Verdict {
        delivery: Some(1),
        ..records[0].verdict(Outcome::Acked)
    };
    let settled = stream.settle(vec![late]).await;
    assert_eq!(
        results(&settled.answers),
        [(0, 0, VerdictResult::Stale, "")]
    );
    let current = Verdict {
        delivery: Some(2),
        ..again.verdict(Outcome::Acked)
    };
    assert_eq!(stream.settle(vec![current]).await.answers, []);
}

// FC-81.
async fn ten_thousand_verdicts_are_taken_and_no_more(stage: Stage) {
    let (gateway, mut stream, records) = five(&stage).await;
    let mut verdicts = vec![records[4].verdict(Outcome::Acked); 10_000];
    let settled = stream.settle(verdicts.clone()).await;
    let repeats: i64 = settled
        .answers
        .iter()
        .map(|one| one.last_offset - one.first_offset + 1)
        .sum();
    assert_eq!(repeats, 9_999, "one applied, the others are repeats");

    verdicts.push(records[0].verdict(Outcome::Acked));
    stream
        .send(Request::Settle(Settle {
            sequence: 77,
            verdicts,
        }))
        .await;
    let status = stream.status().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(reason(&status), "TOO_MANY_VERDICTS");
    // Nothing of it was applied: its last verdict's record comes again.
    let again = gateway.open().await.records(4).await;
    assert_eq!(
        again.iter().map(|one| one.offset).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

async fn ack_of_a_run_settles_all_of_it(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(5).await;
    let run = Verdict {
        last_offset: Some(4),
        ..records[0].verdict(Outcome::Acked)
    };
    assert_eq!(stream.settle(vec![run]).await.answers, []);
    stage.commits(&topic, 0, 5).await;
}

async fn overlapping_runs_settle_each_record_once(stage: Stage) {
    let (_gateway, mut stream, records) = five(&stage).await;
    let low = Verdict {
        last_offset: Some(2),
        ..records[0].verdict(Outcome::Acked)
    };
    let high = Verdict {
        first_offset: 2,
        last_offset: Some(4),
        ..low.clone()
    };
    let settled = stream.settle(vec![low, high]).await;
    assert_eq!(
        results(&settled.answers),
        [(2, 2, VerdictResult::Duplicate, "")]
    );
}

async fn extension_moves_the_deadline(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_secs(2));
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    let extensions = vec![Extension {
        lane: record.lane,
        first_offset: 0,
        last_offset: None,
    }];
    let by = Some(Wire {
        seconds: 600,
        nanos: 0,
    });
    stream
        .send(Request::Extend(Extend {
            sequence: 500,
            extensions,
            by,
        }))
        .await;
    assert_eq!(stream.answer(500).await.answers, []);
    // Twice the deadline, and the record has not come again.
    assert_eq!(stream.within(Duration::from_secs(4)).await.len(), 0);
    stream.ack(&record).await;
}
