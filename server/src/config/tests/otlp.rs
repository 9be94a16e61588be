//! `[telemetry]`: who the gateway says it is, and where it sends what it measures.

use std::{fs, time::Duration};

use super::{LEAST, load_with, messages};

fn with(lines: &str) -> String {
    format!("{lines}\n{LEAST}")
}

#[test]
fn nothing_is_sent_unless_a_receiver_is_named() {
    let config = load_with(LEAST, &[]).expect("it is valid");
    let telemetry = config.telemetry;
    assert_eq!(telemetry.service_name, "ackgate");
    assert!(!telemetry.instance.is_empty());
    assert_eq!(telemetry.max_lanes, 2000);
    assert!(telemetry.otlp.is_none());
}

#[test]
fn receiver_is_an_address_with_a_scheme_and_a_port() {
    for good in ["http://localhost:4317", "https://[::1]:4317/"] {
        let text = with(&format!("telemetry.otlp.endpoint = \"{good}\""));
        let otlp = load_with(&text, &[]).expect(good).telemetry.otlp;
        let otlp = otlp.expect("a receiver");
        assert_eq!(otlp.endpoint, good.trim_end_matches('/'));
        assert_eq!(otlp.is_secure(), good.starts_with("https"));
        assert!(otlp.metrics && otlp.traces);
        assert_eq!(otlp.metrics_interval, Duration::from_secs(30));
    }
    for bad in [
        "localhost:4317",
        "http://localhost",
        "http://localhost:0",
        "http://localhost:4317/v1/metrics",
        "http://localhost:4317?a=b",
        "http://user:secret@localhost:4317",
        "ftp://localhost:4317",
        "",
    ] {
        let text = with(&format!("telemetry.otlp.endpoint = \"{bad}\""));
        let messages = messages(&text, &[]);
        assert!(
            messages[0].contains("must be http://host:port"),
            "{bad}: {messages:?}"
        );
    }
}

#[test]
fn files_mean_nothing_without_a_receiver_and_an_authority_nothing_without_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let headers = folder.path().join("headers");
    fs::write(&headers, "authorization: Bearer hidden\n").expect("it is written");
    let headers = format!("telemetry.otlp.headers_file = {headers:?}");
    let refused = messages(&with(&headers), &[]);
    assert!(
        refused[0].contains("means nothing without telemetry.otlp.endpoint"),
        "{refused:?}"
    );

    let to = "telemetry.otlp.endpoint = \"http://localhost:4317\"";
    let config = load_with(&with(&format!("{to}\n{headers}")), &[]).expect("it is valid");
    let shown = format!("{config:?} {:?}", config.effective());
    assert!(!shown.contains("hidden"), "{shown}");
    let otlp = config.telemetry.otlp.expect("a receiver");
    assert_eq!(otlp.headers.len(), 1);

    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let authority = folder.path().join("ca.pem");
    let pem = generated.expect("a certificate").cert.pem();
    fs::write(&authority, pem).expect("it is written");
    let authority = format!("telemetry.otlp.ca_file = {authority:?}");
    let refused = messages(&with(&format!("{to}\n{authority}")), &[]);
    assert!(refused[0].contains("begins with https://"), "{refused:?}");
    let to = to.replace("http:", "https:");
    let config = load_with(&with(&format!("{to}\n{authority}")), &[]).expect("it is valid");
    assert!(config.telemetry.otlp.is_some_and(|otlp| otlp.ca.is_some()));
}

#[test]
fn files_that_are_not_there_or_hold_something_else_are_told_without_what_they_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("wrong");
    fs::write(&wrong, "hidden\n").expect("it is written");
    let to = "telemetry.otlp.endpoint = \"https://localhost:4317\"";
    for (option, path, expected) in [
        ("headers_file", &wrong, "line 1"),
        ("ca_file", &wrong, "PEM"),
        (
            "headers_file",
            &folder.path().join("none"),
            "cannot be read",
        ),
    ] {
        let text = with(&format!("{to}\ntelemetry.otlp.{option} = {path:?}"));
        let messages = messages(&text, &[]);
        assert!(messages[0].contains(expected), "{messages:?}");
        assert!(!messages[0].contains("hidden"), "{messages:?}");
    }
}

#[test]
fn names_without_characters_are_none() {
    for option in ["service_name", "instance"] {
        let text = with(&format!("telemetry.{option} = \"\""));
        let messages = messages(&text, &[]);
        assert!(messages[0].contains("a name of 1 to 255"), "{messages:?}");
    }
}
