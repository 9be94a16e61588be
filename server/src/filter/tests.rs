//! What filters say, what is refused, and what odd input does.

use ackgate_proto::v1;
use bytes::Bytes;

use super::*;

fn record(key: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> v1::Record {
    v1::Record {
        offset: 42,
        timestamp_ms: 1_700_000_000_000,
        timestamp_type: v1::TimestampType::CreateTime.into(),
        key: key.map(Bytes::copy_from_slice),
        value: Some(Bytes::from_static(b"opaque")),
        headers: headers
            .iter()
            .map(|(key, value)| v1::Header {
                key: (*key).to_owned(),
                value: value.map(Bytes::copy_from_slice),
            })
            .collect(),
    }
}

fn says(source: &str, record: &v1::Record) -> Result<bool, Failure> {
    let filter = Filter::compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    filter.matches(&Subject {
        topic: "orders",
        partition: 3,
        record,
    })
}

fn refused(source: &str) -> String {
    match Filter::compile(source) {
        Ok(_) => panic!("{source} should be refused"),
        Err(invalid) => invalid.to_string(),
    }
}

#[test]
fn every_name_has_its_documented_type() {
    let with = record(
        Some(b"eu-7"),
        &[("kind", Some(b"a")), ("kind", None), ("raw", Some(&[255]))],
    );
    for (source, expected) in [
        ("topic == 'orders' && partition == 3 && offset == 42", true),
        (
            "timestamp >= 1700000000000 && timestamp < 1700000000001",
            true,
        ),
        ("key.startsWith('eu-')", true),
        ("key.matches('^eu-[0-9]+$')", true),
        ("key.matches('^us')", false),
        ("'kind' in headers && 'a' in headers['kind']", true),
        ("headers.kind == ['a', null]", true),
        ("headers['raw'][0] == b'\\xff'", true),
        ("has(headers.kind) && !has(headers.other)", true),
        ("headers.kind.exists(v, v == 'a')", true),
        ("headers.kind.exists_one(v, v == null)", true),
        ("headers.all(name, name != 'other')", true),
        ("size(headers) == 2 && size(key) == 4", true),
        ("offset % 10 == 2 || false", true),
        ("key in ['us-1', 'us-2']", false),
        ("int('7') == 7 ? key == 'x' : true", false),
    ] {
        assert_eq!(says(source, &with), Ok(expected), "{source}");
    }
    assert_eq!(says("key == null", &record(None, &[])), Ok(true));
    assert_eq!(says("key == ''", &record(Some(b""), &[])), Ok(true));
    assert_eq!(
        says("key == b'\\xff'", &record(Some(&[255]), &[])),
        Ok(true)
    );
}

#[test]
fn what_does_not_fit_the_record_is_a_failure_and_no_answer() {
    let plain = record(None, &[]);
    for source in [
        "headers['kind'][0] == 'a'",
        "key.startsWith('a')",
        "key < 3",
        "key.matches('a')",
        "1 / (partition - 3) == 1",
        "offset",
        "'true'",
        "-9223372036854775807 - offset < 0",
    ] {
        assert!(says(source, &plain).is_err(), "{source}");
    }
    let large = vec![b'x'; 65 << 10];
    assert!(matches!(
        says("key == 'a'", &record(Some(&large), &[])),
        Err(Failure::TooLarge { .. })
    ));
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of what is refused")]
fn what_is_refused_says_where_and_what_was_expected() {
    for (source, expected) in [
        ("", "line 1, column 1: is empty"),
        (
            "key == ",
            "line 1, column 7: Syntax error: mismatched input '<EOF>' expecting",
        ),
        (
            "key ==\n  = 'a'",
            "line 2, column 3: Syntax error: = is no operator; there are ==",
        ),
        (
            "key ='a'",
            "line 1, column 5: Syntax error: = is no operator",
        ),
        (
            "key => 3",
            "line 1, column 5: Syntax error: = is no operator",
        ),
        (
            "key & 'a'",
            "line 1, column 5: Syntax error: & is no operator; there is &&",
        ),
        (
            "key | 'a'",
            "line 1, column 5: Syntax error: | is no operator; there is ||",
        ),
        (
            "key == 'a",
            "line 1, column 8: Syntax error: a text begins here and does not end",
        ),
        (
            "key == \"a",
            "line 1, column 8: Syntax error: a text begins here and does not end",
        ),
        (
            "key == #'a'",
            "column 8: Syntax error: token recognition error at: '#",
        ),
        (
            "kee == 'a'",
            "line 1, column 1: no name \"kee\"; there are topic, partition",
        ),
        (
            "key == 'a' &&\nvalue == 'b'",
            "line 2, column 1: the value is opaque",
        ),
        ("key + 'a' == 'b'", "+ is not available"),
        ("[1, 2].map(x, x) == [1]", "builds a list"),
        (
            "[1].exists(x, [2].exists(y, x == y))",
            "a loop within a loop",
        ),
        (
            "upper(key) == 'A'",
            "no function \"upper\"; there are contains",
        ),
        ("key.matches(topic)", "literal pattern"),
        ("key.matches('(')", "the pattern is refused"),
        ("key.matches('(\\\\w{100}){100}')", "the pattern is refused"),
        ("key.matches('\\\\w{40}')", "the pattern is refused"),
        ("matches(key, 'a')", "literal pattern"),
        ("string(key) == 'a'", "no function \"string\""),
        ("[1].exists(x, x + 1 == 2)", "+ is not available"),
    ] {
        let said = refused(source);
        assert!(said.contains(expected), "{source}: {said}");
        assert!(!said.contains('\\') || source.contains('\\'), "{said}");
    }
    let sized = |bytes: usize| format!("key == '{}'", "x".repeat(bytes - 9));
    Filter::compile(&sized(SOURCE_BYTES)).expect("just so");
    let long = sized(SOURCE_BYTES + 1);
    assert!(
        refused(&long).contains("at most 4096"),
        "{}",
        refused(&long)
    );
}

/// The parser is recursive, and has panicked on input like this in other versions.
#[test]
fn odd_sources_are_refused_and_harm_nobody() {
    let fill = |piece: &str| piece.repeat(SOURCE_BYTES / piece.len());
    let mut sources: Vec<String> = ["(", "[", "{", "!", "-", "?", "a?b:", "a.", "a(", "1+", "''"]
        .iter()
        .map(|piece| fill(piece))
        .collect();
    for piece in [
        "true||", "true&&", "1==", "!!", "--", "1-", "a?b:", "a?", "[[],", "x.y(z.",
    ] {
        sources.push(format!(
            "{}true",
            fill(piece).get(..4000).unwrap_or_default()
        ));
    }
    for odd in [
        ".",
        "/",
        "1 +",
        "(",
        ")",
        "\u{0}",
        "'",
        "'''",
        "b'",
        "r'\\",
        "0x",
        "1e",
        "1u2",
        "\"\\u\"",
        "99999999999999999999",
        "9223372036854775808",
        "-9223372036854775808 == 0",
        "has(key)",
        "has()",
        "key.exists(1, true)",
        "a.b.c.d",
        "{1: 2, 1: 3}",
        "T{a: 1}",
        "key[?0]",
        "key.?a",
        "\u{feff}key",
        "кey == 'a'",
        "'\u{1f600}' == key && kee",
    ] {
        sources.push(odd.to_owned());
    }
    let deep = format!(
        ">{}?[{}{}l\u{0}?(-",
        "{".repeat(63),
        "(".repeat(11),
        "{".repeat(26)
    );
    sources.push(deep);
    each_is_survived(sources);
}

#[test]
fn random_words_are_refused_or_run_and_harm_nobody() {
    let seed = fastrand::u64(..);
    fastrand::seed(seed);
    note(seed);
    let words = [
        "key", "headers", "[", "]", "(", ")", "==", "'a'", "&&", "||", "!", "?", ":", ".", ",",
        "in", "exists", "x", "1", "{", "}", "-", "null", "matches", "\n", "\\", "\"",
    ];
    let mut sources = Vec::new();
    for _ in 0..200 {
        let count = fastrand::usize(1..60);
        let text: String = (0..count)
            .map(|_| words[fastrand::usize(..words.len())])
            .collect();
        sources.push(text);
    }
    each_is_survived(sources);
}

#[expect(clippy::print_stdout, reason = "the seed of a failure")]
fn note(seed: u64) {
    println!("seed {seed}");
}

fn each_is_survived(sources: Vec<String>) {
    let plain = record(Some(b"a"), &[("kind", Some(b"a"))]);
    for source in sources {
        if let Ok(filter) = Filter::compile(&source) {
            let _said = filter.matches(&Subject {
                topic: "orders",
                partition: 0,
                record: &plain,
            });
        }
    }
}

/// What passes the bounds runs on the stack of a worker thread.
#[test]
fn the_deepest_program_runs_on_a_small_stack() {
    let chain = format!("offset{} > 0", " - 1".repeat(18));
    let nested = format!("{}true{}", "(true && ".repeat(16), ")".repeat(16));
    let negated = format!("{}true{}", "!(".repeat(16), ")".repeat(16));
    let inner = format!("[1].exists(x, {}x == 1{})", "!(".repeat(14), ")".repeat(14));
    for source in [chain, nested, negated, inner] {
        let run = move || says(&source, &record(None, &[]));
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let thread = small.spawn(run).expect("a thread");
        thread.join().expect("no panic").expect("an answer");
    }
    let long = vec!["key == 'a'"; 100].join(" || ");
    assert_eq!(
        says(&long, &record(Some(b"b"), &[])),
        Ok(false),
        "not nested"
    );
    let deeper = format!("offset{} > 0", " - 1".repeat(30));
    assert!(refused(&deeper).contains("nested more than 20 levels deep"));
}

#[test]
fn what_an_evaluation_costs_is_bounded() {
    let names = |count: usize| vec!["true"; count].join("||");
    Filter::compile(&names(250)).expect("below 512 parts");
    assert!(refused(&names(300)).contains("more than 512 parts"));
    let brackets = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
    Filter::compile(&brackets(16)).expect("just so");
    assert!(refused(&brackets(17)).contains("at most 16 brackets"));
    let conditions = "true ? true : ".repeat(16) + "true";
    Filter::compile(&conditions).expect("each is closed before the next");
    let conditions = "true ? ".repeat(17) + "true" + &": true".repeat(17);
    assert!(refused(&conditions).contains("at most 16 brackets"));
    let exact = vec![b'x'; 64 << 10];
    assert_eq!(says("key != 'a'", &record(Some(&exact), &[])), Ok(true));
    let most = [("k", None); 256];
    assert_eq!(says("key == null", &record(None, &most)), Ok(true));
    let over = [("k", None); 257];
    let failure = Failure::TooLarge {
        bytes: 257,
        headers: 257,
    };
    assert_eq!(says("key == null", &record(None, &over)), Err(failure));
    let of_headers = record(Some(b"x"), &[("k", Some(&exact[2..])), ("", None)]);
    assert_eq!(says("true", &of_headers), Ok(true));
    let beyond = record(Some(b"x"), &[("kk", Some(&exact[2..]))]);
    assert!(says("true", &beyond).is_err());
}

#[test]
fn panics_of_the_library_are_caught() {
    let failed: Result<bool, Failure> = caught(|| panic!("on purpose"));
    assert_eq!(failed, Err(Failure::Panicked));
    let invalid = compile::apart::<()>("key", || panic!("on purpose"));
    assert_eq!(
        invalid.expect_err("it panicked").to_string(),
        "line 1, column 1: cannot be parsed"
    );
}

#[test]
fn filters_are_equal_by_their_source_without_space_around_it() {
    let one = Filter::compile(" key == 'a'\n").expect("valid");
    assert_eq!(one, Filter::compile("key == 'a'").expect("valid"));
    assert_ne!(one, Filter::compile("key == 'b'").expect("valid"));
    assert_eq!(format!("{one:?}"), "Filter(\"key == 'a'\")");
}
