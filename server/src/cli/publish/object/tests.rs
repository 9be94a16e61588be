//! Lines of JSON, good and bad.

use super::*;

fn draft(line: &str) -> Draft {
    read(line.as_bytes()).unwrap()
}

fn some(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn why(line: &str) -> String {
    read(line.as_bytes()).unwrap_err()
}

#[test]
fn key_that_is_missing_null_empty_or_there_is_told_apart() {
    let key = |line| draft(line).key;
    assert_eq!(key(r#"{"value":"v"}"#), None);
    assert_eq!(key(r#"{"key":null,"value":"v"}"#), Some(None));
    assert_eq!(key(r#"{"key":"","value":"v"}"#), Some(some("")));
    assert_eq!(key(r#"{"key":"k","value":"v"}"#), Some(some("k")));
    assert_eq!(
        key(r#"{"key_base64":"/wA=","value":"v"}"#),
        Some(Some(vec![0xff, 0]))
    );
}

#[test]
fn value_that_is_null_is_a_tombstone_and_one_that_is_missing_a_mistake() {
    assert_eq!(draft(r#"{"value":null}"#).value, None);
    assert_eq!(draft(r#"{"value":""}"#).value, some(""));
    assert_eq!(draft(r#"{"value_base64":""}"#).value, some(""));
    assert!(why(r#"{"key":"k"}"#).contains("no \"value\""));
    assert!(why("{}").contains("null writes a tombstone"));
}

#[test]
fn json_that_is_no_string_is_written_as_it_stands() {
    for json in [r#"{"b": 1,  "a":[1.50, null]}"#, "[1, 2]", "1.0e3", "true"] {
        assert_eq!(draft(&format!("{{\"value\":{json}}}")).value, some(json));
    }
    assert_eq!(
        draft(r#"{"value":"{\"a\":\"\\u00e9\\n\"}"}"#).value,
        some(r#"{"a":"\u00e9\n"}"#)
    );
}

#[test]
fn headers_are_a_list_or_a_map_and_keep_order_and_repeats() {
    let list =
        r#"[{"name":"h","value":"1"},{"name":"h","value":null},{"name":"","value_base64":"/w=="}]"#;
    assert_eq!(
        draft(&format!("{{\"value\":1,\"headers\":{list}}}")).headers,
        [
            ("h".to_owned(), some("1")),
            ("h".to_owned(), None),
            (String::new(), Some(vec![0xff]))
        ]
    );
    let map = r#"{"z":"1","a":{"x":1},"z":null}"#;
    assert_eq!(
        draft(&format!("{{\"value\":1,\"headers\":{map}}}")).headers,
        [
            ("z".to_owned(), some("1")),
            ("a".to_owned(), some(r#"{"x":1}"#)),
            ("z".to_owned(), None)
        ]
    );
    assert!(draft(r#"{"value":1,"headers":[]}"#).headers.is_empty());
}

#[test]
fn time_is_milliseconds_or_written_out() {
    let time = |entry: &str| draft(&format!("{{\"value\":1,{entry}}}")).timestamp_ms;
    assert_eq!(time("\"timestamp_ms\":7"), Some(7));
    assert_eq!(time("\"timestamp\":7"), Some(7));
    assert_eq!(
        time("\"timestamp\":\"1970-01-01T00:00:01.5Z\""),
        Some(1_500)
    );
    assert_eq!(time("\"timestamp\":null"), None);
    // As `sub` prints a record that has none.
    assert_eq!(time("\"timestamp_ms\":0,\"timestamp_type\":\"none\""), None);
    assert!(why(r#"{"value":1,"timestamp":"noon"}"#).contains("noon"));
}

#[test]
fn what_sub_prints_is_read() {
    let line = r#"{"topic":"t","partition":2,"offset":5,"epoch":1,"timestamp_ms":9,"timestamp_type":"create_time","attempt":1,"delivery":1,"key":"k","value":"v","headers":[]}"#;
    let wanted = Draft {
        topic: Some("t".to_owned()),
        partition: Some(2),
        key: Some(some("k")),
        value: some("v"),
        headers: Vec::new(),
        timestamp_ms: Some(9),
    };
    assert_eq!(draft(line), wanted);
}

#[test]
fn mistake_is_told_with_its_place() {
    for (line, parts) in [
        ("order 1", ["not a JSON object", "such as"]),
        ("[1]", ["not a JSON object", "such as"]),
        (r#"{"vlaue":1}"#, ["unknown field `vlaue`", "column 8"]),
        (r#"{"value":1,"value":2}"#, ["duplicate field", "column"]),
        (r#"{"value":1} x"#, ["trailing characters", "column 13"]),
        (r#"{"value":1,"#, ["EOF", "column 11"]),
        (r#"{"value":1,"partition":"1"}"#, ["expected i32", "column"]),
        (
            r#"{"value":1,"value_base64":""}"#,
            ["both \"value\" and", "\"value_base64\""],
        ),
        (
            r#"{"value_base64":"x"}"#,
            ["\"value_base64\"", "not Base64"],
        ),
        (
            r#"{"key":"k","key_base64":"","value":1}"#,
            ["\"key\"", "\"key_base64\""],
        ),
        (
            r#"{"value":1,"headers":[{"name":"h"}]}"#,
            ["header \"h\"", "no \"value\""],
        ),
        (
            r#"{"value":1,"headers":7}"#,
            ["headers as a list", "column"],
        ),
        (
            r#"{"value":1,"timestamp":1,"timestamp_ms":1}"#,
            ["\"timestamp\"", "\"timestamp_ms\""],
        ),
        (r#"{"value":"\ud800"}"#, ["is no text", "value_base64"]),
    ] {
        let why = why(line);
        for part in parts {
            assert!(why.contains(part), "{line}: {why}");
        }
    }
    assert!(read(b"{\"value\":\"\xff\"}").is_err());
}
