//! What is read from a record of a dead-letter topic, and which of them are meant.

use ackgate_proto::v1;
use clap::Parser as _;

use super::{letter::Letter, place, print, select::Select, summary::Summary, time};
use crate::headers::{DEAD_LETTER, REDRIVE};

/// A dead letter of `orders/2@41`, as a gateway writes it, with more headers at its end.
pub(super) fn letter(more: &[(&str, &str)]) -> Letter {
    let own = [
        ("a", Some("1")),
        ("a", Some("2")),
        ("b", None),
        ("ackgate.redrive.round", Some("1")),
    ];
    let mut headers: Vec<v1::Header> = own
        .into_iter()
        .map(|(key, value)| header(key, value))
        .collect();
    let said = [
        ("topic", "orders"),
        ("partition", "2"),
        ("offset", "41"),
        ("timestamp", "1700000000000"),
        ("group", "billing"),
        ("subscription", "orders"),
        ("cause", "rejected"),
        ("code", "bad-total"),
        ("reason", "total is negative"),
        ("attempts", "1"),
        ("deliveries", "3"),
        ("last-delivery", "2026-01-02T03:04:05.678Z"),
    ];
    let said = said.iter().chain(more);
    headers.extend(said.map(|(name, value)| header(&format!("{DEAD_LETTER}{name}"), Some(value))));
    headers.push(header("__connect.errors.topic", Some("orders")));
    Letter::new(
        1,
        v1::Record {
            offset: 7,
            timestamp_ms: 1_700_000_000_000,
            timestamp_type: v1::TimestampType::CreateTime.into(),
            key: Some(b"k".to_vec().into()),
            value: None,
            headers,
        },
    )
}

pub(super) fn header(key: &str, value: Option<&str>) -> v1::Header {
    v1::Header {
        key: key.to_owned(),
        value: value.map(|value| value.as_bytes().to_vec().into()),
    }
}

#[test]
fn letter_tells_where_it_came_from_and_what_the_record_itself_had() {
    let letter = letter(&[]);
    let told = letter.told.clone().expect("a gateway wrote it");
    assert_eq!((told.topic.as_str(), told.partition), ("orders", 2));
    assert_eq!((told.offset, told.timestamp_ms), (41, 1_700_000_000_000));
    assert_eq!((told.attempts, told.deliveries, told.round), (1, 3, 0));
    assert_eq!(
        told.dedupe_id, "billing/orders/2/41",
        "also without its header"
    );
    assert!(told.omitted.is_empty());
    let own: Vec<_> = letter.own_headers().cloned().collect();
    let expected = [
        header("a", Some("1")),
        header("a", Some("2")),
        header("b", None),
    ];
    assert_eq!(own, expected, "nothing that was added, under whatever name");
    assert_eq!(time::written(letter.when()), "2026-01-02T03:04:05.678Z");
    assert_eq!(time::short(letter.when()), "2026-01-02 03:04:05");
    let mut letter = letter;
    letter.record.timestamp_type = v1::TimestampType::LogAppendTime.into();
    assert_eq!(letter.when(), 1_700_000_000_000, "when it was written");
}

#[test]
fn what_a_gateway_said_last_counts_and_what_is_missing_is_told() {
    let told = letter(&[
        ("offset", "42"),
        ("dedupe-id", "x"),
        ("round", "3"),
        ("value-omitted", "too large"),
    ])
    .told
    .expect("a gateway wrote it");
    assert_eq!((told.offset, told.round), (42, 3));
    assert_eq!(
        (told.dedupe_id.as_str(), told.omitted),
        ("x", vec!["value"])
    );
}

#[test]
fn record_that_does_not_say_where_it_came_from_is_foreign() {
    for (name, value) in [("partition", "-1"), ("offset", "x"), ("offset", "")] {
        assert_eq!(letter(&[(name, value)]).told, None, "{name}={value}");
    }
    let odd = v1::Header {
        key: format!("{DEAD_LETTER}topic"),
        value: Some(vec![0xff].into()),
    };
    let record = v1::Record {
        headers: vec![odd, header(&format!("{REDRIVE}round"), None)],
        ..v1::Record::default()
    };
    let foreign = Letter::new(0, record);
    assert_eq!(foreign.told, None);
    assert!(print::whole("dead", &foreign).contains("not written by a gateway"));
    assert_eq!(print::row(&foreign)[1], "not from a gateway");
}

#[derive(Debug, clap::Parser)]
struct Selecting {
    #[command(flatten)]
    select: Select,
}

fn selecting(arguments: &[&str]) -> Select {
    let all = ["x"].iter().chain(arguments);
    Selecting::try_parse_from(all).expect("valid").select
}

#[test]
fn letters_are_selected_by_all_that_is_asked() {
    let letter = letter(&[]);
    let told = letter.told.as_ref().expect("a gateway wrote it");
    for (arguments, takes) in [
        (&[][..], true),
        (&["--cause", "expired,rejected"], true),
        (&["--cause", "expired"], false),
        (&["--code", "bad-total"], true),
        (&["--code", "bad"], false),
        (&["--key", "k"], true),
        (&["--key", ""], false),
        (&["--key-hex", "6b"], true),
        (&["--key-hex", "6B00"], false),
        (&["--lane", "orders/2"], true),
        (&["--lane", "orders"], true),
        (&["--lane", "orders/1", "--lane", "bills"], false),
        (&["--dedupe-id", "billing/orders/2/41"], true),
        (&["--dedupe-id", "billing/orders/2/4"], false),
        (&["--since", "2026-01-02T03:04:05.678Z"], true),
        (&["--since", "2026-01-02T03:04:05.679Z"], false),
        (&["--until", "2026-01-02T03:04:05.678Z"], false),
        (&["--until", "2026-01-02 03:04:06"], true),
        (&["--cause", "rejected", "--lane", "orders/3"], false),
    ] {
        let select = selecting(arguments);
        assert_eq!(select.takes(&letter, told), takes, "{arguments:?}");
        assert_eq!(select.is_open(), arguments.is_empty(), "{arguments:?}");
    }
    for wrong in [
        &["--cause", "bad"][..],
        &["--since", "yesterday"],
        &["--key-hex", "6"],
        &["--key-hex", "6x"],
        &["--lane", "orders/x"],
        &["--lane", "/1"],
        &["--key", "a", "--key-hex", "61"],
    ] {
        let all = ["x"].iter().chain(wrong);
        assert!(Selecting::try_parse_from(all).is_err(), "{wrong:?}");
    }
}

#[test]
fn how_long_ago_counts_from_now() {
    let since = time::moment("2h").expect("a duration");
    let ago = time::now_ms() - since;
    assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
    assert_eq!(time::point("1970-01-01T00:00:01Z"), Ok(1000));
    assert_eq!(
        (time::written(0), time::written(i64::MAX)),
        Default::default()
    );
}

#[test]
fn null_empty_and_bytes_stay_apart_in_json_and_nothing_controls_the_terminal() {
    let mut letter = letter(&[("reason", "\u{1b}[2J")]);
    letter.record.key = Some(vec![].into());
    let line = serde_json::to_value(print::Line::new("dead", &letter)).expect("it is JSON");
    assert_eq!(line["key"], "");
    assert_eq!(line["value"], serde_json::Value::Null);
    let headers = serde_json::json!([
        { "name": "a", "value": "1" },
        { "name": "a", "value": "2" },
        { "name": "b", "value": null },
    ]);
    assert_eq!(line["headers"], headers);
    assert_eq!(line["dead_letter"]["offset"], 41);
    letter.record.value = Some(vec![0xff, 0].into());
    let line = serde_json::to_value(print::Line::new("dead", &letter)).expect("it is JSON");
    assert_eq!(
        (&line["value"], &line["value_base64"]),
        (&serde_json::Value::Null, &"/wA=".into())
    );
    let whole = print::whole("dead", &letter);
    assert!(
        !whole.contains('\u{1b}') && whole.contains("\\u{1b}[2J"),
        "{whole}"
    );
    assert!(whole.contains("header          b: <null>"), "{whole}");
    assert!(!print::row(&letter).concat().contains('\u{1b}'));
}

#[test]
fn summary_counts_by_what_they_were_given_up_for_within_bounds() {
    let mut summary = Summary::default();
    for number in 0..1500 {
        let reason = format!("reason {number}");
        let one = letter(&[("reason", &reason)]);
        let same = letter(&[]);
        for letter in [one, same] {
            let told = letter.told.clone().expect("a gateway wrote it");
            summary.add(&letter, &told);
        }
    }
    let counted = serde_json::to_value(summary.counted()).expect("it is JSON");
    let all = counted.as_array().expect("a list");
    assert_eq!(all.len(), 1001);
    assert_eq!(
        (&all[0]["count"], &all[0]["reason"]),
        (&1500.into(), &"total is negative".into())
    );
    assert_eq!(
        (&all[1000]["count"], &all[1000]["cause"]),
        (&501.into(), &"(all others)".into())
    );
}

#[derive(Debug, clap::Parser)]
struct Placing {
    #[command(flatten)]
    from: place::From,
}

fn placed(arguments: &[&str]) -> Result<place::Place, String> {
    let all = ["x"].iter().chain(arguments);
    let placing = Placing::try_parse_from(all).expect("valid");
    placing.from.place().map_err(|error| error.to_string())
}

const CONFIG: &str = r#"
[clusters.main]
address = "kafka://broker"
[subscriptions.orders]
cluster = "main"
topics = ["orders"]
group = "shipping"
start = "earliest"
dead_letter.topic = "dead"
dead_letter.retry_topic = "again"
[subscriptions.bills]
cluster = "main"
topics = ["bills"]
group = "billing"
start = "earliest"
dead_letter.topic = "dead"
[subscriptions.events]
cluster = "main"
topics = ["events"]
group = "audit"
start = "latest"
on_reject = "drop"
"#;

#[test]
fn topic_comes_from_the_configuration_or_from_the_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ackgate.toml");
    std::fs::write(&file, CONFIG).expect("it can be written");
    let file = file.display().to_string();
    let config = ["--config", file.as_str()];
    let of = |name| placed(&[&config[..], &["--subscription", name]].concat());
    let orders = of("orders").expect("it has dead letters");
    assert_eq!(orders.cluster.bootstrap, ["broker:9092"]);
    assert_eq!(
        (orders.topic.as_str(), orders.group.as_deref()),
        ("dead", Some("shipping"))
    );
    assert_eq!(orders.retry_topic.as_deref(), Some("again"));
    assert_eq!(of("bills").expect("it has dead letters").retry_topic, None);
    assert!(
        of("events")
            .unwrap_err()
            .contains("events has no dead letters")
    );
    assert!(
        of("order")
            .unwrap_err()
            .contains("there are: bills, orders")
    );
    assert!(
        placed(&config)
            .unwrap_err()
            .contains("one of: bills, orders")
    );
    let direct = ["--bootstrap", "b:1", "--topic", "dead"];
    let place = placed(&direct).expect("all is said");
    assert_eq!((place.topic.as_str(), place.group), ("dead", None));
    assert!(placed(&direct[2..]).unwrap_err().starts_with("no cluster"));
    assert!(placed(&[]).unwrap_err().starts_with("no dead-letter topic"));
    let both = [&direct[..], &["--subscription", "orders"]].concat();
    assert!(placed(&both).unwrap_err().contains("two things"));
    let neither = [&direct[..2], &config[..]].concat();
    assert!(placed(&neither).unwrap_err().contains("needs --topic"));
}
