//! The protocol goes on to be what it was when it was released.
//!
//! `ACKGATE_RELEASE_PROTOCOL=1 cargo test --test protocol` makes what is there now the
//! released one: with each release of a gateway.

use std::{env, fs};

use ackgate_proto::PROTOCOL_VERSION;

use super::{
    compare::{additions, breaks},
    compiled::{NOW, PACKAGE, RELEASED, at, compiled, files},
};

/// The version that the released protocol has, beside its files.
const VERSION: &str = "proto/released/protocol_version";

const HOW: &str = "run ACKGATE_RELEASE_PROTOCOL=1 cargo test --test protocol";

#[test]
fn nothing_that_was_released_is_broken() {
    if !at(RELEASED).exists() {
        assert!(releases(), "there is no released protocol: {HOW}");
        release();
        return;
    }
    let (before, now) = (compiled(&at(RELEASED)), compiled(&at(NOW)));
    let broken = breaks(&before, &now);
    assert!(
        broken.is_empty(),
        "these changes break programs that speak the released protocol; add something new beside \
         the old instead (proto/README.md, \"What may change\"):\n  {}\n",
        broken.join("\n  ")
    );
    let released = version();
    assert!(
        PROTOCOL_VERSION >= released,
        "the protocol's version fell from {released} to {PROTOCOL_VERSION}"
    );
    if releases() {
        let added = additions(&before, &now);
        assert!(
            added.is_empty() || PROTOCOL_VERSION > released,
            "these additions raise the protocol's version, which is {PROTOCOL_VERSION} as in the \
             last release (proto/lib.rs, and `Opened.protocol_version`); if that one was never \
             given to anybody, remove {RELEASED} first:\n  {}\n",
            added.join("\n  ")
        );
        release();
    }
}

#[test]
fn version_is_the_one_in_the_comment() {
    let text = fs::read_to_string(at("proto/ackgate/v1/gateway.proto")).unwrap();
    let words = format!("additions raise it. Now {PROTOCOL_VERSION}.");
    assert!(text.contains(&words), "Opened.protocol_version: {words:?}");
}

fn releases() -> bool {
    env::var("ACKGATE_RELEASE_PROTOCOL").is_ok_and(|value| value == "1")
}

fn version() -> u32 {
    let text = fs::read_to_string(at(VERSION)).expect("the released protocol has a version");
    text.trim().parse().expect("the version is a number")
}

fn release() {
    let folder = at(RELEASED).join(PACKAGE);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    for file in files(&at(NOW)) {
        let name = file.file_name().unwrap();
        fs::copy(&file, folder.join(name)).unwrap();
    }
    fs::write(at(VERSION), format!("{PROTOCOL_VERSION}\n")).unwrap();
}
