//! Publishing without gRPC and Kafka.
