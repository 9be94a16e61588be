//! The list of tests and the runner: which run, where, and what is said of those
//! that cannot.

use std::{collections::BTreeSet, future::Future, pin::Pin, process::ExitCode};

use libtest_mimic::{Arguments, Trial};

use super::{Broker, Stage, kafka};

/// Most tests wait most of the time, so more of them run at once than cores exist.
const TESTS_AT_ONCE: usize = 4;

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// On the embedded broker.
    Embedded,
    /// On Apache Kafka.
    Kafka,
}

/// The test itself.
type Body = fn(Stage) -> Pin<Box<dyn Future<Output = ()>>>;

/// One test on one kind of broker.
#[derive(Debug)]
pub(crate) struct Case {
    name: String,
    on: On,
    body: Body,
}

impl Case {
    /// Names a test after its file, its function and its broker.
    pub(crate) fn new(on: On, module: &str, function: &str, body: Body) -> Self {
        let file = module.rsplit("::").next().unwrap_or(module);
        let broker = match on {
            On::Embedded => "embedded",
            On::Kafka => "kafka",
        };
        Self {
            name: format!("{file}::{function}::{broker}"),
            on,
            body,
        }
    }
}

/// Lists the tests of a file: `both: ...; embedded: ...; kafka: ...;`.
macro_rules! cases {
    (@on both $test:ident) => {[
        $crate::support::cases!(@one Embedded $test),
        $crate::support::cases!(@one Kafka $test),
    ]};
    (@on embedded $test:ident) => {[$crate::support::cases!(@one Embedded $test)]};
    (@on kafka $test:ident) => {[$crate::support::cases!(@one Kafka $test)]};
    (@one $on:ident $test:ident) => {
        $crate::support::Case::new(
            $crate::support::On::$on,
            module_path!(),
            stringify!($test),
            |stage| Box::pin($test(stage)),
        )
    };
    ($($on:ident: $($test:ident),+ $(,)?;)+) => {{
        let mut list = Vec::new();
        $($(list.extend($crate::support::cases!(@on $on $test));)+)+
        list
    }};
}
pub(crate) use cases;

/// Runs what the arguments ask for, as libtest would, and says which tests could
/// not run for want of Apache Kafka.
pub(crate) fn run(cases: Vec<Case>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TESTS_AT_ONCE);
    let absent = kafka::absent();
    let required = std::env::var("CI").is_ok_and(|value| value == "true");

    let mut not_run = BTreeSet::new();
    let mut trials = Vec::new();
    for case in cases {
        let cannot = case.on == On::Kafka && absent.is_some() && !required;
        let asked = arguments
            .filter
            .as_deref()
            .is_none_or(|filter| case.name.contains(filter));
        if cannot && asked {
            not_run.insert(case.name.clone());
        }
        let (on, body) = (case.on, case.body);
        let trial = Trial::test(case.name.clone(), move || {
            enact(&case.name, on, body);
            Ok(())
        });
        trials.push(trial.with_ignored_flag(cannot));
    }

    let conclusion = libtest_mimic::run(&arguments, trials);
    kafka::stop();
    if let (Some(why), false, false) = (absent, not_run.is_empty(), arguments.list) {
        let names: Vec<&str> = not_run.iter().map(String::as_str).collect();
        println!(
            "not run (no Apache Kafka: Java and Maven are needed; {why}): {}: {}",
            names.len(),
            names.join(", ")
        );
    }
    conclusion.exit_code()
}

/// Runs one test on a broker, each on a runtime of its own.
fn enact(name: &str, on: On, body: Body) {
    let broker = match on {
        On::Embedded => Broker::embedded(),
        On::Kafka => Broker::kafka(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(body(Stage::new(name, broker)));
    // A blocking call into librdkafka may still be waiting for its own timeout.
    runtime.shutdown_background();
}
