//! What `ackgate dlq redrive` leaves where it is, and what it says of that.

use super::{Topics, letter, redrive, run};
use crate::support::{Case, Outgoing, Stage, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: what_cannot_be_put_back_is_counted_and_left,
            retry_topic_that_takes_less_gets_what_it_takes,
            dry_run_writes_nothing;
    ]
}

async fn what_cannot_be_put_back_is_counted_and_left(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let topics = Topics {
        retry: Topic {
            name: stage.named("week"),
        },
        ..topics
    };
    let week = Some(("retention.ms", "604800000"));
    stage.broker.create(&topics.retry.name, 1, week).await;
    let said = |mut of: Outgoing, name: &str, value: &str| {
        let key = format!("ackgate.dead-letter.{name}");
        of.headers.push((key, Some(value.as_bytes().to_vec())));
        of
    };
    // A record without a time is not an old one.
    let fine = said(letter(&stage, &topics, (0, 0)), "timestamp", "0");
    let one = |offset| letter(&stage, &topics, (0, offset));
    let letters = [
        fine.clone(),
        said(one(1), "value-omitted", "too large for the topic: 9 bytes"),
        said(one(2), "group", "another"),
        Outgoing::value(0, "no gateway wrote it"),
        // Older than the topic keeps records.
        said(one(3), "timestamp", "1700000000000"),
        said(one(4), "cause", "expired"),
    ];
    stage.broker.produce(&topics.dead.name, letters).await;
    let summary = redrive(&stage, &topics, &["--cause", "rejected"]).await;
    let counts = [
        "put_back",
        "incomplete",
        "of_others",
        "foreign",
        "too_old",
        "not_selected",
    ];
    for name in counts {
        assert_eq!(summary[name], 1, "{name}: {summary}");
    }
    let skipped = summary["skipped"].as_array().unwrap();
    let places: Vec<_> = skipped.iter().map(|one| one["offset"].as_i64()).collect();
    assert_eq!(places, [Some(1), Some(4)], "{summary}");
    let seen = stage.holds(&topics.retry, 1).await;
    assert_eq!(seen[0].value, fine.value);

    // Limits count what is put back, so that runs go on behind each other.
    let all = ["--limit", "1", "--cause", "rejected,expired"];
    let summary = redrive(&stage, &topics, &all).await;
    assert_eq!(
        (&summary["put_back"], &summary["put_back_before"]),
        (&1.into(), &1.into())
    );
    let again = redrive(&stage, &topics, &["--again", "--cause", "rejected"]).await;
    assert_eq!(again["put_back"], 1, "{again}");
    stage.holds(&topics.retry, 3).await;

    let compacted = Topic {
        name: stage.named("compacted"),
    };
    let setting = Some(("cleanup.policy", "compact"));
    stage.broker.create(&compacted.name, 1, setting).await;
    let topics = Topics {
        retry: compacted,
        ..topics
    };
    let (code, _) = run(&stage, &topics, "redrive", &[]).await;
    assert_eq!(code, 1, "one record of a key would replace another");
}

async fn retry_topic_that_takes_less_gets_what_it_takes(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let topics = Topics {
        retry: Topic {
            name: stage.named("small"),
        },
        ..topics
    };
    // Each of the small ones fits, two of them together do not.
    let limit = Some(("max.message.bytes", "2500"));
    stage.broker.create(&topics.retry.name, 1, limit).await;
    // Not to be compressed.
    let mut state = 1_u32;
    let mut noise = |length| -> Vec<u8> {
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    };
    let letters: Vec<_> = (0..9)
        .map(|at| Outgoing {
            value: Some(noise(if at == 4 { 5000 } else { 1200 })),
            ..letter(&stage, &topics, (0, at))
        })
        .collect();
    stage.broker.produce(&topics.dead.name, letters).await;
    let summary = redrive(&stage, &topics, &[]).await;
    assert_eq!(
        (&summary["put_back"], &summary["refused"]),
        (&8.into(), &1.into()),
        "{summary}"
    );
    assert_eq!(summary["skipped"][0]["offset"], 4, "{summary}");
    let seen = stage.holds(&topics.retry, 8).await;
    let offsets: Vec<_> = seen
        .iter()
        .map(|record| record.header("ackgate.redrive.offset").unwrap())
        .collect();
    assert_eq!(
        offsets,
        ["0", "1", "2", "3", "5", "6", "7", "8"],
        "in order"
    );
    let again = redrive(&stage, &topics, &[]).await;
    assert_eq!(
        (
            &again["put_back"],
            &again["refused"],
            &again["put_back_before"]
        ),
        (&0.into(), &1.into(), &8.into())
    );
}

async fn dry_run_writes_nothing(stage: Stage) {
    let topics = Topics::new(&stage, 2).await;
    let letters: Vec<_> = (0..20)
        .map(|at| letter(&stage, &topics, (at % 2, at.into())))
        .collect();
    stage.broker.produce(&topics.dead.name, letters).await;
    let summary = redrive(&stage, &topics, &["--dry-run"]).await;
    assert_eq!(
        (&summary["put_back"], &summary["dry_run"]),
        (&20.into(), &true.into())
    );
    let some = redrive(&stage, &topics, &["--dry-run", "--limit", "3"]).await;
    assert_eq!(
        (&some["put_back"], &some["limited"]),
        (&3.into(), &true.into())
    );
    assert_eq!(super::ends(&stage, &topics.retry).await, 0);
}
