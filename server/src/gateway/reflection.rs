//! Server reflection: tells tools what the services on the subscribers' listener and
//! their messages are, in both versions of the reflection protocol.

use ackgate_proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic_reflection::{
    pb,
    server::{
        Builder,
        v1::{self, ServerReflectionServer},
        v1alpha,
    },
};

/// Served to operators alone, over a listener of their own.
const OPERATORS: &str = "ackgate.v1.AdminService";

/// Every set of descriptors that is served, those of errors' details among them.
const SETS: [&[u8]; 5] = [
    FILE_DESCRIPTOR_SET,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_types::pb::FILE_DESCRIPTOR_SET,
    pb::v1::FILE_DESCRIPTOR_SET,
    pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// Version 1, which new tools ask.
pub(super) fn v1() -> Option<ServerReflectionServer<impl v1::ServerReflection>> {
    broken(builder().and_then(Builder::build_v1))
}

/// Version 1alpha, which older tools ask.
pub(super) fn v1alpha() -> Option<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>> {
    broken(builder().and_then(Builder::build_v1alpha))
}

fn builder() -> Result<Builder<'static>, tonic_reflection::server::Error> {
    let mut builder = Builder::configure().include_reflection_service(false);
    for set in SETS {
        builder = builder.register_encoded_file_descriptor_set(set);
        for file in FileDescriptorSet::decode(set)?.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                if name != OPERATORS {
                    builder = builder.with_service_name(name);
                }
            }
        }
    }
    Ok(builder)
}

/// The descriptors are built in, so an error is a mistake of the build; a test sees it.
fn broken<T>(service: Result<T, tonic_reflection::server::Error>) -> Option<T> {
    service
        .inspect_err(|error| tracing::warn!(%error, "there is no server reflection"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_whole() {
        assert!(builder().and_then(Builder::build_v1).is_ok());
        assert!(builder().and_then(Builder::build_v1alpha).is_ok());
    }
}
