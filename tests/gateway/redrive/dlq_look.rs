//! What is listed and shown of a dead-letter topic.

use ackgate_proto::v1::Outcome;
use serde_json::{Value, json};

use super::{Topics, dlq, letter, run};
use crate::support::{Case, Outgoing, Stage, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: letters_are_listed_counted_and_selected;
        kafka: topic_that_does_not_exist_is_said_not_to,
            one_letter_is_shown_whole_and_no_group_is_left_behind,
            compacted_and_transactional_topics_are_read_to_their_ends;
    ]
}

fn places(lines: &[Value]) -> Vec<(i64, i64)> {
    let number = |line: &Value, name: &str| line[name].as_i64().unwrap();
    lines
        .iter()
        .map(|line| (number(line, "partition"), number(line, "offset")))
        .collect()
}

async fn letters_are_listed_counted_and_selected(stage: Stage) {
    let topics = Topics::new(&stage, 2).await;
    let mut letters: Vec<_> = (0..10)
        .map(|at| letter(&stage, &topics, (at % 2, at.into())))
        .collect();
    letters.push(Outgoing {
        partition: 1,
        key: Some(vec![]),
        ..Outgoing::default()
    });
    stage.broker.produce(&topics.dead.name, letters).await;
    let list = async |more: &[&str]| {
        let (code, lines) = run(&stage, &topics, "list", more).await;
        assert_eq!(code, 0, "{more:?}");
        lines
    };
    let all = list(&[]).await;
    let expected: Vec<_> = (0..5)
        .map(|offset| (0, offset))
        .chain((0..6).map(|offset| (1, offset)))
        .collect();
    assert_eq!(places(&all), expected, "in order");
    let foreign = &all[10];
    assert_eq!(foreign["dead_letter"], Value::Null);
    assert_eq!(
        (&foreign["key"], &foreign["value"]),
        (&json!(""), &Value::Null)
    );
    assert_eq!(all[0]["dead_letter"]["cause"], "rejected");
    assert_eq!(all[0]["headers"], json!([]), "the record's own");

    assert_eq!(places(&list(&["--limit", "3"]).await), expected[..3]);
    let lane = format!("{}/1", topics.source.name);
    assert_eq!(places(&list(&["--lane", &lane]).await), expected[5..10]);
    assert_eq!(places(&list(&["--key", "key-3"]).await), [(1, 1)]);
    assert_eq!(places(&list(&["--cause", "expired"]).await), []);
    assert_eq!(places(&list(&["--until", "1h"]).await), []);
    assert_eq!(
        list(&["--since", "1h"]).await.len(),
        10,
        "none that is foreign"
    );
    let counted = list(&["--summary"]).await.remove(0);
    let kinds = &counted["kinds"];
    assert_eq!(
        (&kinds[0]["count"], &kinds[0]["code"]),
        (&10.into(), &"bad-total".into())
    );
    assert_eq!(counted["foreign"], 1);
    let selected = list(&["--summary", "--since", "1h"]).await.remove(0);
    assert_eq!(selected["foreign"], 0, "nobody asked for it");

    let mut table = dlq(&stage, &topics, "list", &["-n", "2"]);
    assert!(table.end().await.success());
    let lines = table.out_from(0);
    assert_eq!(lines.len(), 3, "a head and two rows: {lines:?}");
    assert!(lines[1].contains("total is negative"), "{lines:?}");
    assert!(table.err().contains("there may be more"), "{}", table.err());
}

async fn topic_that_does_not_exist_is_said_not_to(stage: Stage) {
    let topics = Topics {
        dead: Topic {
            name: stage.named("nowhere"),
        },
        ..Topics::new(&stage, 1).await
    };
    let said = format!("error: topic {} does not exist", topics.dead.name);
    for (what, more) in [("list", &[][..]), ("show", &["0/0"]), ("redrive", &[])] {
        let mut process = dlq(&stage, &topics, what, more);
        assert_eq!(process.end().await.code(), Some(1), "{what}");
        assert_eq!(process.err(), said, "{what}");
    }
}

// FC-57, FC-59.
async fn one_letter_is_shown_whole_and_no_group_is_left_behind(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let record = Outgoing {
        key: Some(vec![]),
        headers: vec![
            ("a".to_owned(), Some(b"1".to_vec())),
            ("a".to_owned(), Some(b"2".to_vec())),
            ("b".to_owned(), None),
        ],
        ..Outgoing::default()
    };
    stage.broker.produce(&topics.source.name, [record]).await;
    let subscription = stage.subscription(&topics.source);
    let gateway = stage
        .gateway(&[subscription.dead_letter(&topics.dead)])
        .await;
    let mut stream = gateway.open().await;
    let received = stream.record().await;
    let mut verdict = received.verdict(Outcome::Rejected);
    verdict.reason = "\u{1b}[31mred".to_owned();
    stream.settle(vec![verdict]).await;
    stage.holds(&topics.dead, 1).await;

    let id = format!("{}/{}/0/0", stage.group(), topics.source.name);
    for which in [&["0/0"][..], &["--dedupe-id", &id]] {
        let (code, shown) = run(&stage, &topics, "show", which).await;
        assert_eq!(code, 0, "{which:?}");
        let shown = &shown[0];
        assert_eq!((&shown["key"], &shown["value"]), (&json!(""), &Value::Null));
        let headers = json!([
            { "name": "a", "value": "1" },
            { "name": "a", "value": "2" },
            { "name": "b", "value": null },
        ]);
        assert_eq!(shown["headers"], headers);
        assert_eq!(shown["dead_letter"]["dedupe_id"], id.as_str());
    }
    let mut people = dlq(&stage, &topics, "show", &["0/0"]);
    assert!(people.end().await.success());
    let text = people.out_from(0).join("\n");
    assert!(text.contains("value           <null>"), "{text}");
    assert!(text.contains("header          b: <null>"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    for (nowhere, code) in [("0/1", 1), ("7/0", 2)] {
        let mut process = dlq(&stage, &topics, "show", &[nowhere]);
        assert_eq!(process.end().await.code(), Some(code), "{nowhere}");
    }

    let groups = stage.broker.tools().tool("consumer-groups", &["--list"]);
    assert!(!groups.contains("ackgate-dlq"), "{groups}");
}

async fn compacted_and_transactional_topics_are_read_to_their_ends(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let letters: Vec<_> = (0..4).map(|at| letter(&stage, &topics, (0, at))).collect();
    stage.broker.produce(&topics.dead.name, letters).await;
    super::redrive(&stage, &topics, &["--limit", "2"]).await;
    super::redrive(&stage, &topics, &[]).await;
    // Two transactions, each with a marker behind its records: those are its last offsets.
    let retry = &topics.retry;
    assert_eq!(super::ends(&stage, retry).await, 6);
    let as_letters = Topics {
        source: topics.source.clone(),
        dead: retry.clone(),
        retry: topics.dead.clone(),
    };
    let (code, lines) = run(&stage, &as_letters, "list", &[]).await;
    assert_eq!(code, 0);
    assert_eq!(places(&lines), [(0, 0), (0, 1), (0, 3), (0, 4)]);
}
