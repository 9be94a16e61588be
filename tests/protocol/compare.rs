//! What a change of the protocol breaks: for programs that are generated from it, for
//! messages that are on their way, and for their JSON form. Additions break nothing.

use std::{collections::BTreeMap, ops::Range};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, FileOptions, MethodDescriptorProto, field_descriptor_proto::Label,
};

use super::schema::{Schema, oneof};

/// What somebody who relies on `before` loses with `after`, in words; nothing if they
/// lose nothing.
pub(crate) fn breaks(before: &FileDescriptorSet, after: &FileDescriptorSet) -> Vec<String> {
    let (before, after) = (Schema::of(before), Schema::of(after));
    let mut broken = Vec::new();
    for (name, file) in &before.files {
        match after.files.get(name) {
            None => broken.push(format!("file {name} is gone: imports of it fail")),
            Some(now) => options(name, file, now, &mut broken),
        }
    }
    for (name, was) in &before.messages {
        match after.messages.get(name) {
            None => broken.push(format!("message {name} was removed")),
            Some(now) => {
                moved("message", name, was.file, now.file, &mut broken);
                message(name, was.item, now.item, &mut broken);
            }
        }
    }
    for (name, was) in &before.enums {
        match after.enums.get(name) {
            None => broken.push(format!("enum {name} was removed")),
            Some(now) => {
                moved("enum", name, was.file, now.file, &mut broken);
                values(name, was.item, now.item, &mut broken);
            }
        }
    }
    for (name, was) in &before.services {
        let Some(now) = after.services.get(name) else {
            broken.push(format!("service {name} was removed"));
            continue;
        };
        moved("service", name, was.file, now.file, &mut broken);
        for method in &was.item.method {
            let mut methods = now.item.method.iter();
            let same = methods.find(|it| it.name() == method.name());
            calls(name, method, same, &mut broken);
        }
    }
    broken
}

/// What `after` has and `before` has not.
pub(crate) fn additions(before: &FileDescriptorSet, after: &FileDescriptorSet) -> Vec<String> {
    let (before, after) = (Schema::of(before).elements(), Schema::of(after).elements());
    after.difference(&before).cloned().collect()
}

fn moved(kind: &str, name: &str, was: &str, now: &str, broken: &mut Vec<String>) {
    if was != now {
        broken.push(format!(
            "{kind} {name} moved from {was} to {now}: imports of it fail"
        ));
    }
}

/// Each decides what generated code is called.
fn named(options: &FileOptions) -> [(&'static str, String); 11] {
    let flag = |flag: Option<bool>| flag.unwrap_or_default().to_string();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        ("go_package", text(&options.go_package)),
        ("java_package", text(&options.java_package)),
        ("java_outer_classname", text(&options.java_outer_classname)),
        ("java_multiple_files", flag(options.java_multiple_files)),
        ("csharp_namespace", text(&options.csharp_namespace)),
        ("objc_class_prefix", text(&options.objc_class_prefix)),
        ("php_class_prefix", text(&options.php_class_prefix)),
        ("php_namespace", text(&options.php_namespace)),
        (
            "php_metadata_namespace",
            text(&options.php_metadata_namespace),
        ),
        ("ruby_package", text(&options.ruby_package)),
        ("swift_prefix", text(&options.swift_prefix)),
    ]
}

fn options(
    name: &str,
    was: &FileDescriptorProto,
    now: &FileDescriptorProto,
    broken: &mut Vec<String>,
) {
    if was.syntax() != now.syntax() {
        broken.push(format!(
            "file {name}: syntax changed from {} to {}",
            was.syntax(),
            now.syntax()
        ));
    }
    let of = |file: &FileDescriptorProto| named(&file.options.clone().unwrap_or_default());
    for ((option, was), (_, now)) in of(was).into_iter().zip(of(now)) {
        if was != now {
            broken.push(format!(
                "file {name}: option {option} changed from {was:?} to {now:?}: generated code has \
                 other names"
            ));
        }
    }
}

fn message(name: &str, was: &DescriptorProto, now: &DescriptorProto, broken: &mut Vec<String>) {
    for field in &was.field {
        let at = format!("field {name}.{} = {}", field.name(), field.number());
        let same = now.field.iter().find(|it| it.number() == field.number());
        let elsewhere = now.field.iter().find(|it| it.name() == field.name());
        match (same, elsewhere) {
            (Some(same), _) if same.name() == field.name() => {
                field_changes(&at, (was, field), (now, same), broken);
            }
            (_, Some(elsewhere)) => broken.push(format!(
                "{at} was renumbered to {}: old and new messages are read wrongly",
                elsewhere.number()
            )),
            (Some(same), None) => broken.push(format!(
                "{at} was renamed to {}: its JSON form and generated code change",
                same.name()
            )),
            (None, None) => broken.push(format!("{at} was removed")),
        }
    }
    let numbers = |message: &DescriptorProto| -> Vec<Range<i32>> {
        let ranges = message.reserved_range.iter();
        ranges.map(|it| it.start()..it.end()).collect()
    };
    let reserved = Reserved {
        was: (numbers(was), was.reserved_name.clone()),
        now: (numbers(now), now.reserved_name.clone()),
        uses: now
            .field
            .iter()
            .map(|it| (it.number(), it.name()))
            .collect(),
    };
    reserved.check(&format!("message {name}"), broken);
}

fn field_changes(
    at: &str,
    (was_in, was): (&DescriptorProto, &FieldDescriptorProto),
    (now_in, now): (&DescriptorProto, &FieldDescriptorProto),
    broken: &mut Vec<String>,
) {
    let (old, new) = (type_of(was), type_of(now));
    if old != new {
        broken.push(format!("{at}: type changed from {old} to {new}"));
    }
    let (old, new) = (cardinality(was), cardinality(now));
    if old != new {
        broken.push(format!("{at}: cardinality changed from {old} to {new}"));
    }
    let (old, new) = (oneof(was_in, was), oneof(now_in, now));
    match (old.is_empty(), new.is_empty()) {
        _ if old == new => {}
        (true, _) => broken.push(format!("{at} was moved into oneof {new}")),
        (_, true) => broken.push(format!("{at} was moved out of oneof {old}")),
        _ => broken.push(format!("{at} was moved from oneof {old} to oneof {new}")),
    }
    if was.json_name() != now.json_name() {
        broken.push(format!(
            "{at}: its name in JSON changed from {} to {}",
            was.json_name(),
            now.json_name()
        ));
    }
}

fn type_of(field: &FieldDescriptorProto) -> String {
    let plain = field.r#type().as_str_name();
    let plain = plain.trim_start_matches("TYPE_").to_lowercase();
    match field.type_name().trim_start_matches('.') {
        "" => plain,
        named => named.to_owned(),
    }
}

fn cardinality(field: &FieldDescriptorProto) -> &'static str {
    match field.label() {
        Label::Repeated => "repeated",
        Label::Required => "required",
        Label::Optional if field.proto3_optional() => "optional",
        Label::Optional => "singular",
    }
}

fn values(
    name: &str,
    was: &EnumDescriptorProto,
    now: &EnumDescriptorProto,
    broken: &mut Vec<String>,
) {
    for value in &was.value {
        let at = format!("enum value {name}.{} = {}", value.name(), value.number());
        let same = now.value.iter().find(|it| it.number() == value.number());
        let elsewhere = now.value.iter().find(|it| it.name() == value.name());
        match (same, elsewhere) {
            (Some(same), _) if same.name() == value.name() => {}
            (_, Some(elsewhere)) => {
                broken.push(format!("{at} was renumbered to {}", elsewhere.number()));
            }
            (Some(same), None) => broken.push(format!("{at} was renamed to {}", same.name())),
            (None, None) => broken.push(format!("{at} was removed")),
        }
    }
    let numbers = |one: &EnumDescriptorProto| -> Vec<Range<i32>> {
        let ranges = one.reserved_range.iter();
        // Here the end is included.
        ranges
            .map(|it| it.start()..it.end().saturating_add(1))
            .collect()
    };
    let reserved = Reserved {
        was: (numbers(was), was.reserved_name.clone()),
        now: (numbers(now), now.reserved_name.clone()),
        uses: now
            .value
            .iter()
            .map(|it| (it.number(), it.name()))
            .collect(),
    };
    reserved.check(&format!("enum {name}"), broken);
}

/// What may never be used again: numbers and names.
type Kept = (Vec<Range<i32>>, Vec<String>);

struct Reserved<'a> {
    was: Kept,
    now: Kept,
    /// Numbers and names that are in use now.
    uses: BTreeMap<i32, &'a str>,
}

impl Reserved<'_> {
    fn check(&self, at: &str, broken: &mut Vec<String>) {
        let (numbers, names) = &self.was;
        for (number, name) in &self.uses {
            if numbers.iter().any(|range| range.contains(number)) {
                broken.push(format!(
                    "{at}: {name} uses the reserved number {number} again"
                ));
            }
            if names.iter().any(|reserved| reserved == name) {
                broken.push(format!("{at}: the reserved name {name} is used again"));
            }
        }
        for range in numbers {
            let kept = |number: i32| self.now.0.iter().any(|it| it.contains(&number));
            // Both ends tell: ranges are only ever joined or extended.
            if !kept(range.start) || !kept(range.end.saturating_sub(1)) {
                broken.push(format!(
                    "{at}: {} to {} is not reserved any more",
                    range.start,
                    range.end.saturating_sub(1)
                ));
            }
        }
        for name in names.iter().filter(|name| !self.now.1.contains(name)) {
            broken.push(format!("{at}: the name {name} is not reserved any more"));
        }
    }
}

fn calls(
    service: &str,
    was: &MethodDescriptorProto,
    now: Option<&MethodDescriptorProto>,
    broken: &mut Vec<String>,
) {
    let at = format!("method {service}.{}", was.name());
    let Some(now) = now else {
        broken.push(format!("{at} was removed"));
        return;
    };
    let streams = |client: bool, server: bool| match (client, server) {
        (false, false) => "unary",
        (true, false) => "client streaming",
        (false, true) => "server streaming",
        (true, true) => "bidirectional",
    };
    let old = streams(was.client_streaming(), was.server_streaming());
    let new = streams(now.client_streaming(), now.server_streaming());
    if old != new {
        broken.push(format!("{at}: changed from {old} to {new}"));
    }
    for (what, old, new) in [
        ("request", was.input_type(), now.input_type()),
        ("response", was.output_type(), now.output_type()),
    ] {
        if old != new {
            let (old, new) = (old.trim_start_matches('.'), new.trim_start_matches('.'));
            broken.push(format!("{at}: its {what} changed from {old} to {new}"));
        }
    }
}
