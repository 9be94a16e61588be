//! End-to-end tests: the `ackgate` program over real sockets, against the embedded
//! broker and against Apache Kafka.
//!
//! A test is an async function of a [`Stage`](support::Stage), registered in its
//! file's `cases`. Where Apache Kafka cannot be had, the tests that need it are
//! reported as ignored and named; where `CI` is `true` they fail instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::large_futures,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test that fails should stop where it fails, and say so"
)]

mod support;

mod ack_map;
mod ad_hoc;
mod answers;
mod batches;
mod bounded;
mod broadcast;
mod commands;
mod commit;
mod config;
mod dead_letter;
mod dead_letter_copy;
mod dead_letter_kill;
mod dead_letter_policy;
mod dead_letter_topics;
mod delivery;
mod exactly_once;
mod flow_control;
mod handover;
mod health;
mod intake;
mod key_order;
mod kill;
mod lanes;
mod leases;
mod log;
mod log_lines;
mod metrics;
mod protocol;
mod pub_command;
mod publish;
mod publish_rules;
mod publish_trouble;
mod pull;
mod ready;
mod rebalance;
mod redelivery;
mod redrive;
mod reflection;
mod restarts;
mod rolling;
mod secure;
mod sessions;
mod several;
mod shutdown;
mod tools;
mod traces;
mod transport;
mod verdicts;
mod web;
mod windows;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cases = [
        ad_hoc::cases(),
        batches::cases(),
        bounded::cases(),
        delivery::cases(),
        broadcast::cases(),
        commit::cases(),
        ack_map::cases(),
        redelivery::cases(),
        dead_letter::cases(),
        dead_letter_copy::cases(),
        dead_letter_kill::cases(),
        dead_letter_policy::cases(),
        exactly_once::cases(),
        redrive::cases(),
        reflection::cases(),
        dead_letter_topics::cases(),
        ready::cases(),
        rebalance::cases(),
        flow_control::cases(),
        health::cases(),
        intake::cases(),
        key_order::cases(),
        protocol::cases(),
        publish::cases(),
        publish_rules::cases(),
        publish_trouble::cases(),
        pull::cases(),
        answers::cases(),
        sessions::cases(),
        leases::cases(),
        several::cases(),
        worker::cases(),
        verdicts::cases(),
        shutdown::cases(),
        config::cases(),
        kill::cases(),
        log::cases(),
        log_lines::cases(),
        metrics::cases(),
        lanes::cases(),
        rolling::cases(),
        secure::cases(),
        tools::cases(),
        commands::cases(),
        traces::cases(),
        pub_command::cases(),
        web::cases(),
        handover::cases(),
        transport::cases(),
        windows::cases(),
        restarts::cases(),
    ];
    support::run(cases.into_iter().flatten().collect())
}
