//! What reaches the log, and in which form.

use std::sync::{Arc, Mutex};

use tracing::{debug, error, info, subscriber::with_default, warn};

use super::*;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(filter: &str, json: bool, events: impl FnOnce()) -> String {
    let written = Written::default();
    let log = Log {
        filter: filter.to_owned(),
        json,
    };
    let writer = written.clone();
    let subscriber = subscriber(&log, false, move || writer.clone()).unwrap();
    with_default(subscriber, events);
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn everything() {
    info!("own info");
    debug!("own debug");
    error!(target: "librdkafka", "library error");
    warn!(target: "librdkafka", "library warning");
    info!(target: "librdkafka", "library info");
    debug!(target: "h2::codec", "frames");
}

fn lines(filter: &str) -> Vec<&'static str> {
    let text = logged(filter, false, everything);
    [
        "own info",
        "own debug",
        "library error",
        "library warning",
        "library info",
        "frames",
    ]
    .into_iter()
    .filter(|line| text.contains(line))
    .collect()
}

#[test]
fn libraries_are_heard_from_warnings_on_unless_named() {
    assert_eq!(
        lines("info"),
        ["own info", "library error", "library warning"]
    );
    assert_eq!(
        lines("debug"),
        ["own info", "own debug", "library error", "library warning"]
    );
    assert_eq!(
        lines("info,librdkafka=info,h2=debug"),
        [
            "own info",
            "library error",
            "library warning",
            "library info",
            "frames"
        ]
    );
}

#[test]
fn a_filter_that_wants_less_gets_less() {
    assert_eq!(lines("error"), ["library error"]);
    assert!(lines("off").is_empty());
}

/// The one line of these events, as JSON.
fn object(events: impl FnOnce()) -> serde_json::Value {
    let text = logged("trace", true, events);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with('\n'));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn json_is_one_object_per_line_with_each_kind_of_value_as_it_is() {
    let object = object(|| {
        let cause = io::Error::other("no \"way\"");
        info!(
            topic = "orders",
            offset = 7_u64,
            partition = -1_i32,
            position = Some(9_u64),
            head = None::<u64>,
            ratio = 0.5,
            nothing = f64::NAN,
            resumes = true,
            peer = %"127.0.0.1:1",
            list = ?["a"],
            error = &cause as &dyn std::error::Error,
            "lane assigned"
        );
    });
    let at = object["timestamp"].as_str().unwrap();
    assert!(humantime::parse_rfc3339(at).is_ok(), "{at}");
    assert_eq!((at.len(), at.ends_with('Z')), (27, true), "{at}");
    let expected = serde_json::json!({
        "timestamp": at,
        "level": "INFO",
        "target": "ackgate::telemetry::logs::tests",
        "message": "lane assigned",
        "topic": "orders",
        "offset": 7,
        "partition": -1,
        "position": 9,
        "ratio": 0.5,
        "nothing": null,
        "resumes": true,
        "peer": "127.0.0.1:1",
        "list": "[\"a\"]",
        "error": "no \"way\"",
    });
    assert_eq!(object, expected);
}

#[test]
fn each_level_has_its_word_in_either_form() {
    let events = || {
        error!("one");
        warn!("one");
        info!("one");
        debug!("one");
        tracing::trace!("one");
    };
    let words = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
    let json = logged("trace", true, events);
    let text = logged("trace", false, events);
    for ((json, text), word) in json.lines().zip(text.lines()).zip(words) {
        let object: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(object["level"], word);
        assert_eq!(text.split_whitespace().nth(1), Some(word), "{text}");
    }
}

#[test]
fn what_spans_say_stands_beside_the_events_own_fields() {
    let events = || {
        let outer = tracing::error_span!("call", principal = "billing", session = 1);
        let _outer = outer.enter();
        let inner = tracing::info_span!("inner", session = 2, topic = tracing::field::Empty);
        inner.record("topic", "orders");
        let _inner = inner.enter();
        info!(topic = "mine", "attached");
        info!("gone");
    };
    let text = logged("info", true, events);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["topic"], "mine", "the event's own counts");
    assert_eq!(lines[1]["topic"], "orders");
    for line in &lines {
        assert_eq!(line["principal"], "billing");
        assert_eq!(line["session"], 2, "the inner span counts");
    }
    let text = logged("info", false, events);
    assert!(
        text.contains(": gone session=2 topic=orders principal=billing\n"),
        "{text}"
    );
}

/// What clients, records and brokers might send.
const HOSTILE: [&str; 8] = [
    "a\nERROR ackgate: forged",
    "a\r\nb",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{9b}31m\u{85}\u{7f}\0",
    "\u{202e}txet\u{2066}",
    "line\u{2028}paragraph\u{2029}",
    "\" level=\"error\" offset=7 \\",
    "\\",
];

/// Named here one by one, whatever the program takes for hostile.
fn is_hostile(c: char) -> bool {
    let turns = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                 \u{2066}\u{2067}\u{2068}\u{2069}";
    let ends = "\u{85}\u{2028}\u{2029}";
    c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) || turns.contains(c) || ends.contains(c)
}

#[test]
fn nothing_in_a_line_can_end_it_colour_it_or_turn_it() {
    for hostile in HOSTILE {
        for json in [false, true] {
            let text = logged("info", json, || {
                let span = tracing::error_span!("call", principal = %hostile);
                let _span = span.enter();
                let failure = io::Error::other(hostile);
                info!(subscriber = %hostile, reason = hostile, topic = ?hostile, "attached");
                warn!(target: "librdkafka", "{hostile}");
                error!(error = &failure as &dyn std::error::Error, "failed");
            });
            assert_eq!(text.lines().count(), 3, "{hostile:?}: {text:?}");
            assert_eq!(text.matches('\n').count(), 3, "{hostile:?}: {text:?}");
            let plain = text.replace('\n', "");
            assert!(!plain.contains(is_hostile), "{hostile:?}: {text:?}");
            for line in text.lines().filter(|_| json) {
                let object: serde_json::Value = serde_json::from_str(line).unwrap();
                for (name, value) in object.as_object().unwrap() {
                    let value = value.as_str().unwrap();
                    assert!(!value.contains(is_hostile), "{name}: {value:?}");
                }
            }
        }
    }
}

#[test]
fn no_value_looks_like_another_field() {
    let text = logged("info", false, || {
        info!(
            subscriber = "x\" offset=7 y=\"z\\",
            reason = "",
            topic = "a=b",
            cluster = "main",
            "attached"
        );
    });
    let (_, fields) = text.split_once(": attached ").unwrap();
    assert_eq!(
        fields.trim_end(),
        r#"subscriber="x\" offset=7 y=\"z\\" reason="" topic="a=b" cluster=main"#
    );
}

#[test]
fn passwords_of_addresses_stay_out() {
    let secret = "https://me:S3cret@collector:4317";
    for json in [false, true] {
        let text = logged("info", json, || {
            warn!(error = %format!("cannot reach {secret}"), address = secret, "{secret}");
        });
        assert!(!text.contains("S3cret"), "{text}");
        assert!(text.contains("https://***@collector:4317"), "{text}");
    }
}

#[test]
fn only_a_terminal_gets_colours() {
    let written = Written::default();
    let log = Log {
        filter: "info".to_owned(),
        json: false,
    };
    let writer = written.clone();
    let subscriber = subscriber(&log, true, move || writer.clone()).unwrap();
    with_default(subscriber, || info!(topic = "\u{1b}[31m", "attached"));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("\u{1b}[32m INFO\u{1b}[0m"), "{text:?}");
    assert!(text.contains("\\u{1b}[31m"), "{text:?}");
}

#[test]
fn a_filter_that_is_none_is_an_error() {
    assert!(filter("ackgate=loud").is_err());
}
