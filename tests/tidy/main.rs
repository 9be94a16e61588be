//! Rules about the tree itself, checked by reading it: sizes, who may name whom,
//! and words that have no place in it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails should stop where it fails, and say so"
)]

mod field_cases;
mod polyglot;
mod tree;

use std::collections::BTreeSet;

use tree::{Source, sources, text};

/// Production lines above which a file must be split.
const LINES: usize = 500;

/// Lines of a test file.
const TEST_LINES: usize = 500;

/// Fails with every complaint at once.
fn complain(complaints: impl IntoIterator<Item = String>) {
    let all: Vec<String> = complaints.into_iter().collect();
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

/// A crate or module and the places that may name it.
struct Boundary {
    names: &'static [&'static str],
    allowed: &'static [&'static str],
}

const BOUNDARIES: &[Boundary] = &[
    // One door to Kafka.
    Boundary {
        names: &["rdkafka"],
        allowed: &["server/src/broker/kafka/", "tests/"],
    },
    // One door to the wire.
    Boundary {
        names: &[
            "tonic",
            "tonic_health",
            "tonic_prost",
            "tonic_reflection",
            "tonic_types",
            "prost_types",
        ],
        allowed: &[
            "proto/",
            "build.rs",
            "client/",
            // Tokens come in headers.
            "server/src/access/guard.rs",
            // What TLS is spoken over.
            "server/src/access/handshake.rs",
            "server/src/admin/",
            "server/src/session/",
            "server/src/sim/",
            "server/src/cli/",
            "server/src/gateway.rs",
            "server/src/gateway/",
            "server/src/health/service.rs",
            // OTLP goes over gRPC.
            "server/src/telemetry/",
            "tests/",
        ],
    },
    Boundary {
        names: &["ackgate_proto"],
        allowed: &[
            "client/",
            "server/src/admin/",
            "server/src/session/",
            "server/src/sim/",
            "server/src/cli/",
            "server/src/gateway.rs",
            "server/src/gateway/",
            // Only `RECORD_TAG` and the record itself: they are encoded as they are polled.
            "server/src/broker/",
            "server/src/consumer/",
            // What a filter looks at is the record as it is encoded.
            "server/src/filter/",
            "tests/",
        ],
    },
    // Where the configuration comes from is nobody else's business; commands write
    // configurations for the gateways they start.
    Boundary {
        names: &["toml"],
        allowed: &["server/src/config/", "server/src/cli/", "server/tests/"],
    },
];

#[test]
fn file_is_small_enough_to_be_read() {
    complain(sources().iter().filter_map(|source| {
        let limit = if source.is_test() { TEST_LINES } else { LINES };
        let lines = source.production().lines().count();
        (lines > limit).then(|| format!("{}: {lines} lines, {limit} at most", source.path))
    }));
}

#[test]
fn folder_names_only_what_it_may() {
    let mut complaints = Vec::new();
    for source in sources() {
        for boundary in BOUNDARIES {
            if boundary
                .allowed
                .iter()
                .any(|place| source.path.starts_with(place))
            {
                continue;
            }
            for name in boundary
                .names
                .iter()
                .filter(|name| source.names_crate(name))
            {
                complaints.push(format!("{} must not name {name}", source.path));
            }
        }
    }
    complain(complaints);
}

#[test]
fn lane_knows_no_clock_network_or_runtime() {
    let forbidden = [
        "tokio", "futures", "tracing", "rand", "fastrand", "bytes", "serde",
    ];
    let std = [
        "std::time::Instant",
        "std::time::SystemTime",
        "std::thread",
        "std::net",
        "HashMap",
    ];
    let mut complaints = Vec::new();
    for source in sources()
        .iter()
        .filter(|one| one.path.starts_with("server/lane/src/"))
    {
        let used = forbidden.iter().filter(|name| source.names_crate(name));
        let named = std.iter().filter(|name| source.code().contains(**name));
        complaints.extend(
            used.chain(named)
                .map(|name| format!("{}: {name}", source.path)),
        );
    }
    complain(complaints);
}

#[test]
fn file_begins_with_what_it_owns() {
    complain(sources().iter().filter_map(|source| {
        let first = source.text.lines().next().unwrap_or_default();
        let documented = first
            .strip_prefix("//!")
            .is_some_and(|words| !words.trim().is_empty());
        (!documented).then(|| format!("{}: no module documentation first", source.path))
    }));
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, or this file would find itself.
    let marks =
        [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|halves| halves.concat());
    let macros = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let mut complaints = Vec::new();
    for source in sources() {
        for (number, line) in (1..).zip(source.text.lines()) {
            let mark = marks.iter().any(|mark| tree::has_word(line, mark));
            if mark || macros.iter().any(|name| line.contains(name.as_str())) {
                complaints.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    complain(complaints);
}

#[test]
fn cited_invariant_exists() {
    let rules = text("server/lane/src/invariants.rs");
    let defined: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim_start().split_once(" \""))
        .map(|(id, _)| id)
        .filter(|id| tree::is_invariant(id))
        .collect();
    assert!(defined.contains("L1"), "no rule was found");
    let mut complaints = Vec::new();
    for source in sources() {
        let unknown = tree::cited(&source).filter(|id| !defined.contains(id.as_str()));
        complaints.extend(unknown.map(|id| format!("{}: {id} is not defined", source.path)));
    }
    complain(complaints);
}

#[test]
fn file_named_in_a_document_exists() {
    let mut complaints = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md"] {
        for path in tree::paths_named(&text(document)) {
            if !tree::exists(&path) {
                complaints.push(format!("{document} names {path}, which is not there"));
            }
        }
    }
    complain(complaints);
}

#[test]
fn tidy_sees_the_tree() {
    let found: Vec<Source> = sources();
    for path in [
        "proto/lib.rs",
        "server/lane/src/lane.rs",
        "tests/tidy/main.rs",
    ] {
        assert!(
            found.iter().any(|source| source.path == path),
            "{path} was not read"
        );
    }
}
