//! All of rdkafka.
