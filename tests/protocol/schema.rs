//! A compiled package, flat: every message, enum and service by its full name.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto,
};

/// What is promised for ever.
const PACKAGE: &str = "ackgate.v1";

/// Something with the name of the file that it stands in.
pub(crate) struct In<'a, T> {
    pub(crate) file: &'a str,
    pub(crate) item: &'a T,
}

/// The package, by full names.
#[derive(Default)]
pub(crate) struct Schema<'a> {
    pub(crate) files: BTreeMap<&'a str, &'a FileDescriptorProto>,
    pub(crate) messages: BTreeMap<String, In<'a, DescriptorProto>>,
    pub(crate) enums: BTreeMap<String, In<'a, EnumDescriptorProto>>,
    pub(crate) services: BTreeMap<String, In<'a, ServiceDescriptorProto>>,
}

impl<'a> Schema<'a> {
    /// The files of the package in a compiled set; those of others are theirs.
    pub(crate) fn of(set: &'a FileDescriptorSet) -> Self {
        let mut schema = Self::default();
        for file in set.file.iter().filter(|file| file.package() == PACKAGE) {
            let name = file.name();
            schema.files.insert(name, file);
            for item in &file.message_type {
                schema.message(PACKAGE, name, item);
            }
            for item in &file.enum_type {
                schema.enumeration(PACKAGE, name, item);
            }
            for item in &file.service {
                let full = format!("{PACKAGE}.{}", item.name());
                schema.services.insert(full, In { file: name, item });
            }
        }
        schema
    }

    fn message(&mut self, scope: &str, file: &'a str, item: &'a DescriptorProto) {
        let full = format!("{scope}.{}", item.name());
        for nested in &item.nested_type {
            self.message(&full, file, nested);
        }
        for nested in &item.enum_type {
            self.enumeration(&full, file, nested);
        }
        self.messages.insert(full, In { file, item });
    }

    fn enumeration(&mut self, scope: &str, file: &'a str, item: &'a EnumDescriptorProto) {
        let full = format!("{scope}.{}", item.name());
        self.enums.insert(full, In { file, item });
    }

    /// Everything that has a name.
    pub(crate) fn elements(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (name, message) in &self.messages {
            all.insert(format!("message {name}"));
            let fields = message.item.field.iter();
            all.extend(fields.map(|field| format!("field {name}.{}", field.name())));
        }
        for (name, one) in &self.enums {
            all.insert(format!("enum {name}"));
            let values = one.item.value.iter();
            all.extend(values.map(|value| format!("value {name}.{}", value.name())));
        }
        for (name, service) in &self.services {
            all.insert(format!("service {name}"));
            let methods = service.item.method.iter();
            all.extend(methods.map(|method| format!("method {name}.{}", method.name())));
        }
        all
    }
}

/// The oneof that a field was put into; a field that is `optional` has one of its own,
/// which nobody wrote.
pub(crate) fn oneof<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> &'a str {
    if field.proto3_optional() {
        return "";
    }
    let index = field.oneof_index.and_then(|at| usize::try_from(at).ok());
    let declared = index.and_then(|at| message.oneof_decl.get(at));
    declared.map_or("", |oneof| oneof.name())
}
