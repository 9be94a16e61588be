//! What `/readyz` answers, from what drivers and clusters tell.

use super::*;
use crate::{
    consumer::{Reason, ReasonKind, Shown},
    health::Answer,
};

fn finding(status: Status, kind: &'static str) -> Finding {
    Finding {
        subscription: Some("orders".to_owned()),
        lane: Some(("orders".to_owned(), 3)),
        offset: Some(7),
        since_ms: Some(1_700_000_000_123),
        ..Finding::new(status, kind, "why\u{1b}[2J")
    }
}

fn read(findings: Vec<Finding>, wish: Wish) -> (StatusCode, String) {
    let page = written(findings, wish);
    let is_text = page.content_type == "text/plain; charset=utf-8";
    assert_eq!(is_text, wish.text, "{:?}", page.content_type);
    (page.status, page.text)
}

const JSON: Wish = Wish {
    text: false,
    verbose: false,
};

#[test]
fn the_weightiest_finding_decides_and_comes_first() {
    for (all, code, word) in [
        (&[][..], 200, "ready"),
        (&[Status::Ready], 200, "ready"),
        (&[Status::Ready, Status::Degraded], 200, "degraded"),
        (&[Status::Degraded, Status::NotReady], 503, "not ready"),
    ] {
        let findings = all.iter().map(|status| finding(*status, "kind")).collect();
        let (status, text) = read(findings, JSON);
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (status.as_u16(), said["status"].as_str()),
            (code, Some(word))
        );
        let told = all.iter().filter(|it| **it > Status::Ready).count();
        let reasons = said["reasons"].as_array().unwrap();
        assert_eq!(reasons.len(), told, "what is ordinary is not told");
        if let Some(first) = reasons.first() {
            assert_eq!(first["status"], word);
        }
    }
}

#[test]
fn a_reason_names_its_lane_and_its_age() {
    let (_, text) = read(vec![finding(Status::Degraded, "unanswered")], JSON);
    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
    let reason = &said["reasons"][0];
    for (field, expected) in [
        ("kind", "unanswered"),
        ("subscription", "orders"),
        ("topic", "orders"),
        ("since", "2023-11-14T22:13:20.123Z"),
    ] {
        assert_eq!(reason[field], expected, "{field}");
    }
    assert_eq!(
        (&reason["partition"], &reason["offset"]),
        (&3.into(), &7.into())
    );
    assert!(reason["age_seconds"].as_u64().unwrap() > 80_000_000);
    assert!(reason["cluster"].is_null());
}

#[test]
fn people_get_lines_that_steer_no_terminal() {
    let wish = Wish {
        text: true,
        verbose: true,
    };
    let findings = vec![
        finding(Status::Ready, "no-credit"),
        finding(Status::Degraded, "unanswered"),
    ];
    let (_, text) = read(findings, wish);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "degraded");
    assert!(lines[1].starts_with("[!] orders orders/3: unanswered: why [2J (for "));
    assert!(lines[2].starts_with("[+] orders orders/3: no-credit: "));
}

#[test]
fn reasons_are_bounded_and_the_rest_is_counted() {
    let findings = vec![finding(Status::Degraded, "unanswered"); MOST_REASONS + 5];
    let (_, text) = read(findings, JSON);
    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said["reasons"].as_array().unwrap().len(), MOST_REASONS);
    assert_eq!(said["more"], 5);
}

#[test]
fn people_and_programs_ask_for_what_they_want() {
    let wish = |query, accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let Wish { text, verbose } = Wish::of(query, &headers).unwrap();
        (text, verbose)
    };
    assert_eq!(wish(None, "*/*"), (false, false));
    assert_eq!(wish(None, "application/json, text/plain"), (false, false));
    assert_eq!(wish(None, "text/html,application/xhtml+xml"), (true, false));
    assert_eq!(wish(Some("verbose"), "*/*"), (true, true));
    for query in ["verbose=1", "verbose=true", "verbose=", "&verbose"] {
        assert_eq!(wish(Some(query), "application/json"), (false, true));
    }
    for query in ["", "verbose=0", "verbose=false"] {
        assert_eq!(wish(Some(query), "*/*"), (false, false), "{query}");
    }
}

#[test]
fn a_query_that_means_nothing_is_refused_in_words() {
    for (query, part) in [
        ("foo=1", "\"foo\" is not a parameter: verbose is"),
        ("verbosely", "\"verbosely\" is not a parameter"),
        ("verbose&foo", "\"foo\" is not a parameter"),
        ("verbose=maybe", "must be true or false"),
        ("verbose&verbose=false", "given twice"),
    ] {
        let why = Wish::of(Some(query), &HeaderMap::new()).unwrap_err();
        assert!(why.contains(part), "{query}: {why}");
    }
}

#[test]
fn the_whole_is_told_before_its_parts() {
    let (_, text) = read(vec![finding(Status::Degraded, "unanswered")], JSON);
    let start = "{\"status\":\"degraded\",\"reasons\":[{\"kind\":\"unanswered\",\"status\":";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with("],\"more\":0}"), "{text}");
}

fn reason(kind: ReasonKind) -> Reason {
    Reason {
        kind,
        offset: Some(7),
        since_ms: Some(1_700_000_000_123),
        text: "why".to_owned(),
    }
}

#[test]
fn each_kind_of_a_lane_has_the_status_that_the_guide_says() {
    let guide = include_str!("../../../../README.md");
    let (_, table) = guide.split_once("| Kind, of a lane |").expect("a table");
    for kind in ReasonKind::ALL {
        let said = gather::finding(reason(kind));
        let row = format!("| `{}` | {} |", said.kind, said.status.word());
        assert!(table.contains(&row), "no row {row:?}");
        assert_eq!(
            (said.offset, said.since_ms, said.text.as_str()),
            (Some(7), Some(1_700_000_000_123), "why")
        );
    }
}

#[test]
fn fenced_group_is_told_of_the_subscription_and_keeps_the_gateway_from_being_ready() {
    let shown = Shown {
        lanes: Vec::new(),
        subscribers: Vec::new(),
        gateway_used: 0,
        gateway_limit: 1,
        group: Some(reason(ReasonKind::GroupFenced)),
    };
    let mut found = Vec::new();
    gather::of_shown(shown, &mut found);
    let told: Vec<_> = found.iter().map(|it| (it.kind, it.status)).collect();
    assert_eq!(told, [("group-fenced", Status::NotReady)]);
    found.push(finding(Status::NotReady, "draining"));
    gather::spare(&mut found);
    let told: Vec<_> = found.iter().map(|it| it.status).collect();
    assert_eq!(
        told,
        [Status::Degraded, Status::NotReady],
        "its cluster alone is away"
    );
}

#[test]
fn cluster_that_is_away_counts_by_whether_another_answers() {
    let answer = |answers| {
        Some(Answer {
            answers,
            since: std::time::UNIX_EPOCH + std::time::Duration::from_secs(5),
            error: None,
        })
    };
    let (yes, no, unasked) = (answer(true), answer(false), None);
    for (of_two, expected) in [
        (
            [&yes, &no],
            [
                ("cluster-answers", Status::Ready),
                ("cluster-unreachable", Status::Degraded),
            ],
        ),
        (
            [&no, &unasked],
            [
                ("cluster-unreachable", Status::NotReady),
                ("cluster-not-asked", Status::NotReady),
            ],
        ),
        (
            [&unasked, &yes],
            [
                ("cluster-not-asked", Status::Degraded),
                ("cluster-answers", Status::Ready),
            ],
        ),
    ] {
        let asked = of_two.map(|answer| ("main".to_owned(), answer.clone()));
        let mut found = Vec::new();
        gather::clusters(&asked, &mut found);
        let told: Vec<_> = found.iter().map(|it| (it.kind, it.status)).collect();
        assert_eq!(told, expected);
        for (finding, (_, answer)) in found.iter().zip(&asked) {
            let since = answer.as_ref().map(|_| 5000);
            assert_eq!(finding.since_ms, since, "{}", finding.kind);
        }
    }
}
