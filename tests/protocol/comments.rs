//! Whatever the protocol has is explained where it stands.

use prost_types::{FileDescriptorProto, SourceCodeInfo};

use super::{
    compiled::{NOW, at, compiled},
    schema::Schema,
};

/// Field numbers in descriptors, of which paths of comments are made.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const FIELD: i32 = 2;
const ONEOF: i32 = 8;
const VALUE: i32 = 2;
const METHOD: i32 = 2;

#[test]
fn everything_has_a_comment() {
    let set = compiled(&at(NOW));
    let mut bare = Vec::new();
    let mut seen = 0;
    for (name, file) in Schema::of(&set).files {
        let empty = SourceCodeInfo::default();
        let info = file.source_code_info.as_ref().unwrap_or(&empty);
        for (path, what) in parts(file) {
            seen += 1;
            let mut locations = info.location.iter();
            let location = locations.find(|location| location.path == path);
            let words = location.map_or("", |location| location.leading_comments());
            if words.trim().is_empty() {
                bare.push(format!("{name}: {what}"));
            }
        }
    }
    assert!(seen > 300, "only {seen} parts were found");
    assert!(bare.is_empty(), "without a comment: {bare:#?}");
}

/// Every part that is to have a comment: its path in the file and its name.
fn parts(file: &FileDescriptorProto) -> Vec<(Vec<i32>, String)> {
    let mut parts = Vec::new();
    let mut add = |path: &[i32], name: String| parts.push((path.to_vec(), name));
    for (m, message) in (0..).zip(&file.message_type) {
        add(&[MESSAGE, m], message.name().to_owned());
        assert!(
            message.nested_type.is_empty() && message.enum_type.is_empty(),
            "{}: names in the package are easier to find than those within others",
            message.name()
        );
        for (f, field) in (0..).zip(&message.field) {
            let name = format!("{}.{}", message.name(), field.name());
            add(&[MESSAGE, m, FIELD, f], name);
        }
        let own = message.field.iter().filter(|field| field.proto3_optional());
        let written = message.oneof_decl.len() - own.count();
        for (o, oneof) in (0..).zip(message.oneof_decl.iter().take(written)) {
            let name = format!("{}.{}", message.name(), oneof.name());
            add(&[MESSAGE, m, ONEOF, o], name);
        }
    }
    for (e, one) in (0..).zip(&file.enum_type) {
        add(&[ENUM, e], one.name().to_owned());
        for (v, value) in (0..).zip(&one.value) {
            add(&[ENUM, e, VALUE, v], value.name().to_owned());
        }
    }
    for (s, service) in (0..).zip(&file.service) {
        add(&[SERVICE, s], service.name().to_owned());
        for (m, method) in (0..).zip(&service.method) {
            let name = format!("{}.{}", service.name(), method.name());
            add(&[SERVICE, s, METHOD, m], name);
        }
    }
    parts
}
