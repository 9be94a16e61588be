//! What is put back, where, and how fast.

use std::time::{Duration, Instant};

use ackgate_proto::v1;
use clap::Parser as _;

use super::{
    Args, Summary,
    back::{self, Made, Target},
    pace::{Pace, Rate},
    retry_topic,
    run::its_source,
};
use crate::cli::dlq::{
    place::Place,
    tests::{header, letter},
};

fn target(partitions: i32) -> Target<'static> {
    Target {
        dead_letter_topic: "dead",
        retry_topic: "again",
        partitions,
    }
}

#[test]
fn record_is_put_back_as_it_was_with_where_it_came_from() {
    let letter = letter(&[("dedupe-id", "billing/orders/2/41"), ("round", "1")]);
    let told = letter.told.as_ref().expect("a gateway wrote it");
    let record = back::record(&target(3), &letter, told, Some(99));
    assert_eq!(
        (record.topic.as_str(), record.partition),
        ("again", Some(2))
    );
    assert_eq!((&record.key, &record.value), (&letter.record.key, &None));
    assert_eq!(record.timestamp_ms, Some(1_700_000_000_000));
    let headers: Vec<v1::Header> = record
        .headers
        .into_iter()
        .map(|(key, value)| v1::Header { key, value })
        .collect();
    let expected = [
        header("a", Some("1")),
        header("a", Some("2")),
        header("b", None),
        header("ackgate.redrive.topic", Some("orders")),
        header("ackgate.redrive.partition", Some("2")),
        header("ackgate.redrive.offset", Some("41")),
        header("ackgate.redrive.timestamp", Some("1700000000000")),
        header("ackgate.redrive.dedupe-id", Some("billing/orders/2/41")),
        header("ackgate.redrive.not-before", Some("99")),
        header("ackgate.redrive.dead-letter", Some("dead/1/7")),
        header("ackgate.redrive.round", Some("2")),
    ];
    assert_eq!(headers, expected);
    let made = Made {
        partition: 1,
        offset: 7,
        of: back::number(&told.dedupe_id),
    };
    assert_eq!(back::made_from(&headers, "dead"), Some(made));
    for other in ["dea", "dead/1", "again", ""] {
        assert_eq!(back::made_from(&headers, other), None, "{other}");
    }
    let at_once = back::record(&target(2), &letter, told, None);
    assert_eq!(at_once.partition, Some(0), "lane 2 of 2 partitions");
    let mut names = at_once.headers.iter().map(|(name, _)| name.as_str());
    assert!(!names.any(|name| name == "ackgate.redrive.not-before"));
}

#[test]
fn record_without_a_time_gets_the_time_of_its_being_put_back() {
    let letter = letter(&[("timestamp", "0")]);
    let told = letter.told.as_ref().expect("a gateway wrote it");
    let record = back::record(&target(1), &letter, told, None);
    assert_eq!(record.timestamp_ms, None);
}

#[test]
fn pace_is_kept_and_nothing_is_saved_up() {
    let rate: Rate = "10/s".parse().expect("a rate");
    let mut pace = Pace::new(Some(rate));
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    assert_eq!(pace.take(at(0)), Duration::ZERO);
    assert_eq!(pace.take(at(40)), Duration::from_millis(60));
    // A late one is caught up, within a second.
    assert_eq!(pace.take(at(250)), Duration::ZERO);
    assert_eq!(pace.take(at(250)), Duration::ZERO);
    assert_eq!(pace.take(at(250)), Duration::from_millis(50));
    assert_eq!(pace.take(at(60_000)), Duration::ZERO);
    assert_eq!(pace.take(at(60_000)), Duration::from_millis(100));
    let mut free = Pace::new(None);
    assert!((0..1000).all(|_| free.take(start).is_zero()));
    for wrong in ["0", "-1/s", "x", "", "1/m", "nan", "inf"] {
        assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
    }
}

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(arguments: &[&str]) -> Args {
    let all = ["x"].iter().chain(arguments);
    Line::try_parse_from(all).expect("valid").args
}

#[test]
fn nothing_is_put_back_into_a_source_or_for_everybody() {
    let cluster = crate::config::Cluster {
        name: "main".to_owned(),
        bootstrap: vec!["b:1".to_owned()],
        properties: Vec::new(),
    };
    let place = Place {
        cluster,
        topic: "dead".to_owned(),
        group: Some("billing".to_owned()),
        retry_topic: Some("again".to_owned()),
        properties: Vec::new(),
        sources: vec!["orders".to_owned()],
    };
    let into = |place: &Place, arguments: &[&str]| {
        retry_topic(&args(arguments), place).map_err(|error| error.to_string())
    };
    assert_eq!(into(&place, &[]), Ok("again".to_owned()));
    assert_eq!(into(&place, &["--retry-topic", "x"]), Ok("x".to_owned()));
    for (topic, words) in [
        ("orders", "as a source"),
        ("dead", "dead-letter topic itself"),
    ] {
        let error = into(&place, &["--retry-topic", topic]).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    // What the arguments do not tell, the dead letter does.
    let letter = letter(&[]);
    let told = letter.told.as_ref().expect("a gateway wrote it");
    assert!(its_source(&place, "orders", told).is_some());
    assert_eq!(its_source(&place, "again", told), None);
    let own = Place {
        retry_topic: Some("orders".to_owned()),
        ..place.clone()
    };
    assert_eq!(its_source(&own, "orders", told), None);
    let nobodys = Place {
        group: None,
        ..place.clone()
    };
    assert!(into(&nobodys, &[]).unwrap_err().contains("--group"));
    let nowhere = Place {
        retry_topic: None,
        ..place
    };
    assert!(
        into(&nowhere, &[])
            .unwrap_err()
            .contains("dead_letter.retry_topic")
    );
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for wrong in [
        &["--limit", "0"][..],
        &["--delay", "31d"],
        &["--delay", "soon"],
        &["--not-before", "2h"],
        &["--delay", "1m", "--not-before", "2026-01-01T00:00:00Z"],
        &["--rate", "0"],
    ] {
        let all = ["x"].iter().chain(wrong);
        assert!(Line::try_parse_from(all).is_err(), "{wrong:?}");
    }
}

#[test]
fn summary_says_what_is_not_zero() {
    let summary = Summary {
        retry_topic: "again".to_owned(),
        put_back: 3,
        foreign: 1,
        interrupted: true,
        ..Summary::default()
    };
    let expected = "3 put back into again in 0.0 s; 1 not from a gateway; interrupted, run it again \
                    to go on";
    assert_eq!(summary.words(), expected);
}
