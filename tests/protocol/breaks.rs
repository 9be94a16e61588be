//! The comparison sees each kind of break, and no other.

use std::fs;

use prost_types::FileDescriptorSet;
use tempfile::TempDir;

use super::{
    compare::{additions, breaks},
    compiled::{PACKAGE, compiled},
};

/// A small protocol with one of everything.
const BASE: &str = r#"
syntax = "proto3";
package ackgate.v1;
option go_package = "example.org/v1;v1";
option java_package = "org.example.v1";

service Shop {
  rpc Buy(Order) returns (Receipt);
  rpc Watch(Order) returns (stream Receipt);
}

message Order {
  reserved 7, 20 to 22;
  reserved "price";
  string item = 1;
  uint32 count = 2;
  repeated string notes = 3;
  optional string gift = 4;
  oneof payment {
    string card = 5;
    bool cash = 6;
  }
  Kind kind = 8;
  message Line {
    int64 offset = 1;
  }
  Line line = 9;
}

message Receipt {
  string number = 1;
}

enum Kind {
  reserved 4;
  reserved "KIND_OLD";
  KIND_UNSPECIFIED = 0;
  KIND_BOOK = 1;
  KIND_FILM = 2;
}
"#;

fn compile(files: &[(&str, &str)]) -> FileDescriptorSet {
    let folder = TempDir::new().unwrap();
    let package = folder.path().join(PACKAGE);
    fs::create_dir_all(&package).unwrap();
    for (name, text) in files {
        fs::write(package.join(name), text).unwrap();
    }
    compiled(folder.path())
}

/// The base with each text of a pair put in the place of the other.
fn edited(edits: &[(&str, &str)]) -> FileDescriptorSet {
    let mut text = BASE.to_owned();
    for (from, to) in edits {
        assert_eq!(text.matches(from).count(), 1, "{from:?}");
        text = text.replace(from, to);
    }
    compile(&[("shop.proto", &text)])
}

fn broken_by(edits: &[(&str, &str)]) -> Vec<String> {
    breaks(&edited(&[]), &edited(edits))
}

#[track_caller]
fn tells(edits: &[(&str, &str)], expected: &[&str]) {
    let told = broken_by(edits);
    let whole = told.len() == expected.len()
        && told
            .iter()
            .zip(expected)
            .all(|(told, part)| told.contains(part));
    assert!(whole, "{edits:?}: {told:#?} are not {expected:#?}");
}

#[test]
fn additions_break_nothing_and_are_listed() {
    let edits = [
        (
            "  rpc Buy",
            "  rpc Sell(Order) returns (Receipt);\n  rpc Buy",
        ),
        (
            "  Line line = 9;",
            "  Line line = 9;\n  string voucher = 10;\n  reserved 30;",
        ),
        (
            "    bool cash = 6;",
            "    bool cash = 6;\n    bytes coin = 11;",
        ),
        ("  KIND_FILM = 2;", "  KIND_FILM = 2;\n  KIND_GAME = 3;"),
        ("message Receipt {", "message Refund {}\nmessage Receipt {"),
    ];
    let before = edited(&[]);
    let after = edited(&edits);
    assert_eq!(breaks(&before, &after), Vec::<String>::new());
    let expected = [
        "field ackgate.v1.Order.coin",
        "field ackgate.v1.Order.voucher",
        "message ackgate.v1.Refund",
        "method ackgate.v1.Shop.Sell",
        "value ackgate.v1.Kind.KIND_GAME",
    ];
    assert_eq!(additions(&before, &after), expected);
}

#[test]
fn comments_and_order_are_free() {
    let swapped = [(
        "  string item = 1;\n  uint32 count = 2;",
        "  // New words.\n  uint32 count = 2;\n  string item = 1;",
    )];
    tells(&swapped, &[]);
    assert_eq!(
        additions(&edited(&[]), &edited(&swapped)),
        Vec::<String>::new()
    );
}

#[test]
fn fields() {
    tells(
        &[("  uint32 count = 2;\n", "")],
        &["field ackgate.v1.Order.count = 2 was removed"],
    );
    tells(
        &[("  uint32 count = 2;\n", "  reserved 2;\n")],
        &["field ackgate.v1.Order.count = 2 was removed"],
    );
    tells(
        &[("uint32 count = 2", "uint32 count = 12")],
        &["count = 2 was renumbered to 12"],
    );
    tells(
        &[("uint32 count = 2", "uint32 number = 2")],
        &["count = 2 was renamed to number"],
    );
    tells(
        &[
            ("string item = 1", "string item = 2"),
            ("uint32 count = 2", "uint32 count = 1"),
        ],
        &[
            "item = 1 was renumbered to 2",
            "count = 2 was renumbered to 1",
        ],
    );
    tells(
        &[("uint32 count = 2", "uint64 count = 2")],
        &["count = 2: type changed from uint32 to uint64"],
    );
    tells(
        &[("Kind kind = 8", "Receipt kind = 8")],
        &["kind = 8: type changed from ackgate.v1.Kind to ackgate.v1.Receipt"],
    );
    tells(
        &[("uint32 count = 2", "uint32 count = 2 [json_name = \"n\"]")],
        &["count = 2: its name in JSON changed from count to n"],
    );
    tells(
        &[("int64 offset = 1", "int32 offset = 1")],
        &["ackgate.v1.Order.Line.offset"],
    );
}

#[test]
fn cardinality() {
    tells(
        &[("repeated string notes", "string notes")],
        &["notes = 3: cardinality changed from repeated to singular"],
    );
    tells(
        &[("optional string gift", "string gift")],
        &["gift = 4: cardinality changed from optional to singular"],
    );
    tells(
        &[("uint32 count", "optional uint32 count")],
        &["count = 2: cardinality changed from singular to optional"],
    );
}

#[test]
fn oneofs() {
    tells(
        &[
            ("    bool cash = 6;\n", ""),
            ("  Kind kind", "  bool cash = 6;\n  Kind kind"),
        ],
        &["cash = 6 was moved out of oneof payment"],
    );
    tells(
        &[
            ("  uint32 count = 2;\n", ""),
            ("    bool cash", "    uint32 count = 2;\n    bool cash"),
        ],
        &["count = 2 was moved into oneof payment"],
    );
    tells(
        &[("oneof payment", "oneof paid")],
        &[
            "from oneof payment to oneof paid",
            "from oneof payment to oneof paid",
        ],
    );
}

#[test]
fn enum_values() {
    tells(
        &[("  KIND_FILM = 2;\n", "")],
        &["ackgate.v1.Kind.KIND_FILM = 2 was removed"],
    );
    tells(
        &[("KIND_FILM = 2", "KIND_MOVIE = 2")],
        &["KIND_FILM = 2 was renamed to KIND_MOVIE"],
    );
    tells(
        &[("KIND_FILM = 2", "KIND_FILM = 3")],
        &["KIND_FILM = 2 was renumbered to 3"],
    );
}

#[test]
fn reserved_numbers_and_names() {
    let line = "  Line line = 9;";
    tells(
        &[
            ("reserved 7, 20 to 22;", "reserved 20 to 22;"),
            (line, "  Line line = 9;\n  bool a = 7;"),
        ],
        &[
            "a uses the reserved number 7 again",
            "7 to 7 is not reserved any more",
        ],
    );
    tells(
        &[("reserved 7, 20 to 22;", "reserved 7, 20;")],
        &["message ackgate.v1.Order: 20 to 22 is not reserved any more"],
    );
    tells(
        &[
            ("  reserved \"price\";\n", ""),
            (line, "  Line line = 9;\n  bool price = 10;"),
        ],
        &[
            "the reserved name price is used again",
            "the name price is not reserved any more",
        ],
    );
    tells(
        &[
            ("  reserved 4;\n", ""),
            ("KIND_FILM = 2;", "KIND_FILM = 2;\n  KIND_X = 4;"),
        ],
        &[
            "KIND_X uses the reserved number 4 again",
            "4 to 4 is not reserved any more",
        ],
    );
    tells(
        &[("  reserved \"KIND_OLD\";\n", "")],
        &["enum ackgate.v1.Kind: the name KIND_OLD is not reserved any more"],
    );
}

#[test]
fn methods() {
    tells(
        &[("  rpc Buy(Order) returns (Receipt);\n", "")],
        &["method ackgate.v1.Shop.Buy was removed"],
    );
    tells(
        &[(
            "rpc Buy(Order) returns (Receipt)",
            "rpc Buy(Receipt) returns (Order)",
        )],
        &[
            "its request changed from ackgate.v1.Order to ackgate.v1.Receipt",
            "its response changed from ackgate.v1.Receipt to ackgate.v1.Order",
        ],
    );
    tells(
        &[("returns (stream Receipt)", "returns (Receipt)")],
        &["Watch: changed from server streaming to unary"],
    );
    tells(
        &[("rpc Buy(Order)", "rpc Buy(stream Order)")],
        &["Buy: changed from unary to client streaming"],
    );
}

#[test]
fn what_generated_code_is_called() {
    tells(
        &[("example.org/v1;v1", "example.org/v2;v2")],
        &["option go_package changed from \"example.org/v1;v1\" to \"example.org/v2;v2\""],
    );
    tells(
        &[("option java_package = \"org.example.v1\";\n", "")],
        &["option java_package changed from \"org.example.v1\" to \"\""],
    );
    tells(
        &[(
            "option go_package",
            "option java_multiple_files = true;\noption go_package",
        )],
        &["option java_multiple_files changed from \"false\" to \"true\""],
    );
}

#[test]
fn whole_things() {
    tells(
        &[
            ("  Line line = 9;\n", ""),
            ("  message Line {\n    int64 offset = 1;\n  }\n", ""),
        ],
        &[
            "line = 9 was removed",
            "message ackgate.v1.Order.Line was removed",
        ],
    );
    tells(
        &[
            ("enum Kind", "enum Sort"),
            ("Kind kind = 8", "Sort kind = 8"),
        ],
        &["kind = 8: type changed", "enum ackgate.v1.Kind was removed"],
    );
    tells(
        &[("service Shop", "service Store")],
        &["service ackgate.v1.Shop was removed"],
    );
}

#[test]
fn files() {
    let (rest, receipt) = (
        BASE.replace("message Receipt {\n  string number = 1;\n}\n", "")
            .replace(
                "package ackgate.v1;",
                "package ackgate.v1;\nimport \"ackgate/v1/receipt.proto\";",
            ),
        "syntax = \"proto3\";\npackage ackgate.v1;\nmessage Receipt {\n  string number = 1;\n}\n",
    );
    let split = compile(&[("shop.proto", &rest), ("receipt.proto", receipt)]);
    let told = breaks(&edited(&[]), &split);
    let expected = "message ackgate.v1.Receipt moved from ackgate/v1/shop.proto to \
                    ackgate/v1/receipt.proto: imports of it fail";
    assert_eq!(told, [expected]);
    let told = breaks(&split, &edited(&[]));
    assert_eq!(
        told.first().unwrap(),
        "file ackgate/v1/receipt.proto is gone: imports of it fail"
    );
}
