//! Subscribes to Kafka records through an ackgate gateway.
