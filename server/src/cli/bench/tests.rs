//! The parties of a benchmark that need no gateway, and the report.

use clap::Parser as _;

use super::*;
use report::{Report, Run, tests::figures};
use telemetry::Telemetry;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

pub(super) fn plan(arguments: &[&str]) -> Plan {
    let arguments = ["bench"].iter().chain(arguments);
    Plan::new(&Cli::try_parse_from(arguments).unwrap().args).unwrap()
}

#[test]
fn defaults_are_those_of_the_manual_and_a_cluster_lifts_the_limits() {
    let plan = plan(&["--bootstrap", "127.0.0.1:9"]);
    assert_eq!(
        (plan.records, plan.size, plan.partitions, plan.repeat),
        (1_000_000, 128, 8, 3)
    );
    assert!(!plan.embedded && !plan.telemetry);
}

#[test]
fn embedded_broker_gets_what_it_can_keep_and_the_notes_say_so() {
    let plan = plan(&["--records", "100000000"]);
    assert!(plan.embedded && plan.records < 1_000_000, "{plan:?}");
    assert!(
        plan.notes.iter().any(|note| note.contains("100000000")),
        "{:?}",
        plan.notes
    );
}

#[test]
fn report_has_medians_and_their_ratio() {
    let run = |direct, gateway| Run {
        direct: figures(direct),
        gateway: figures(gateway),
    };
    let report = Report::new(
        &plan(&[]),
        // Each commits one second after its last answer.
        vec![run(0.0, 1.0), run(1.0, 3.0), run(3.0, 3.0)],
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["direct_per_s"], 500_000.0);
    assert_eq!(json["gateway_per_s"], 250_000.0);
    assert_eq!(json["ratio"], 0.5);
    for key in ["records", "size", "partitions", "repeat"] {
        assert!(json[key].is_u64(), "{key}");
    }
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    let table = report.table();
    assert!(
        table.contains("500 k/s") && table.contains("0.50"),
        "{table}"
    );
}

#[tokio::test]
async fn topic_is_filled_evenly_and_the_configuration_is_valid() {
    let stage = run::Stage::set(plan(&["--records", "1000", "--partitions", "4"]))
        .await
        .unwrap();
    let lanes = stage.fill().await.unwrap();
    assert!(
        lanes.iter().all(|lane| (lane.start, lane.end) == (0, 250)),
        "{lanes:?}"
    );
    let address = "127.0.0.1:7".parse().unwrap();
    let path = stage.write_config("group", address, "").unwrap();
    let config = crate::config::load(&path, []).unwrap();
    assert_eq!(config.listen.address, address);
    assert_eq!(config.subscriptions[0].group, "group");
    assert!(config.subscriptions[0].dead_letter.is_some());
}

#[tokio::test]
async fn gateways_tell_of_themselves_what_they_are_measured_with() {
    let stage = run::Stage::set(plan(&["--records", "10", "--telemetry"]))
        .await
        .unwrap();
    let (address, admin) = (
        "127.0.0.1:7".parse().unwrap(),
        "127.0.0.1:8".parse().unwrap(),
    );
    for (telemetry, sample, keep) in [
        (Telemetry::Off, 0.0, 0),
        (Telemetry::Default, 0.001, 4096),
        (Telemetry::Hundredth, 0.01, 4096),
    ] {
        let lines = telemetry.lines(admin);
        let path = stage.write_config("group", address, &lines).unwrap();
        let config = crate::config::load(&path, []).unwrap();
        assert_eq!((config.traces.sample, config.traces.keep), (sample, keep));
        let operators = config.admin.map(|it| it.address);
        assert_eq!(
            operators,
            telemetry.is_scraped().then_some(admin),
            "{telemetry:?}"
        );
    }
}

#[tokio::test]
async fn commits_that_do_not_come_are_an_error() {
    let stage = run::Stage::set(plan(&["--records", "10"])).await.unwrap();
    let ends = stage.fill().await.unwrap();
    let onlooker = stage.onlooker("nobody", &ends).await.unwrap();
    let error = run::Stage::await_commits(onlooker, &ends, Duration::ZERO)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("partition"), "{error}");
}
