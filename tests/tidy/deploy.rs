//! What operators are given to use with the metrics: every expression of the dashboard and
//! of the alert rules asks for metrics and labels that exist, every alert says what to do,
//! and the page that it points to has that place.

mod asked;
mod metrics;
mod promql;

use std::collections::BTreeSet;

use asked::{Alert, Asked, at};
use metrics::Table;

use super::{complain, tree};

/// The page that alerts point to.
const RUNBOOK: &str = "server/runbook.md";

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let table = Table::read();
    let asked: Vec<Asked> = asked::dashboards().chain(asked::rules()).collect();
    assert!(asked.len() > 80, "only {} were found", asked.len());
    complain(asked.iter().flat_map(|one| one.complaints(&table)));
}

#[test]
fn runbook_names_metrics_that_exist() {
    let (table, page) = (Table::read(), tree::text(RUNBOOK));
    let names = metrics::named(&page).into_iter();
    let unknown = names.filter(|name| !table.knows(name));
    let unknown = unknown.map(|name| format!("{RUNBOOK} names {name}, which is no metric"));
    let asked = asked::page(RUNBOOK).flat_map(|one| one.complaints(&table));
    complain(unknown.chain(asked));
}

#[test]
fn alert_says_what_happened_and_what_to_do() {
    let places = anchors(&tree::text(RUNBOOK));
    let mut complaints = Vec::new();
    for alert in asked::alerts() {
        let Alert { name, severity, .. } = &alert;
        if !["critical", "warning"].contains(&severity.as_str()) {
            complaints.push(format!("{name}: severity {severity:?}"));
        }
        if alert.summary.is_empty() || alert.description.is_empty() {
            complaints.push(format!("{name}: no summary or no description"));
        }
        let place = alert
            .runbook
            .strip_prefix(RUNBOOK)
            .and_then(|rest| rest.strip_prefix('#'));
        if !place.is_some_and(|place| places.contains(place)) {
            complaints.push(format!("{name}: {} is no place", alert.runbook));
        }
    }
    complain(complaints);
}

/// Links within the page, and into the other pages beside it.
#[test]
fn runbook_links_lead_somewhere() {
    let page = tree::text(RUNBOOK);
    let links = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let is_broken = |link: &&str| {
        let (file, place) = link.split_once('#').unwrap_or((link, ""));
        let path = match file {
            "" => RUNBOOK.to_owned(),
            _ => format!("server/{file}"),
        };
        !tree::exists(&path) || !place.is_empty() && !anchors(&tree::text(&path)).contains(place)
    };
    let broken = links.filter(is_broken);
    complain(broken.map(|link| format!("{RUNBOOK} has a link to {link}, which is not there")));
}

/// A rule that never fires is worse than none.
#[test]
fn alert_has_a_test_in_which_it_fires() {
    let fires = asked::fired_in_tests();
    let silent = asked::alerts().filter(|alert| !fires.contains(&alert.name));
    complain(silent.map(|alert| format!("{} fires in no test", alert.name)));
}

/// Places that a link into a page can name, as they are made from its headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The example of a collector hangs together: parts that a pipeline names are there.
#[test]
fn collector_has_the_parts_that_its_pipelines_name() {
    let file = asked::yaml("server/deploy/otel/collector.yaml");
    let pipelines = at(&file, "/service/pipelines").as_object();
    let pipelines = pipelines.expect("pipelines");
    assert_eq!(pipelines.len(), 2, "traces and metrics");
    let mut complaints = Vec::new();
    for (pipeline, parts) in pipelines {
        for kind in ["receivers", "processors", "exporters"] {
            let names = at(parts, &format!("/{kind}")).as_array().into_iter();
            let names = names.flatten().filter_map(serde_json::Value::as_str);
            let is_missing = |name: &&str| at(&file, &format!("/{kind}/{name}")).is_null();
            complaints.extend(
                names
                    .filter(is_missing)
                    .map(|name| format!("{pipeline}: {kind} have no {name:?}")),
            );
        }
    }
    complain(complaints);
}

#[test]
fn unknown_metric_or_label_is_found() {
    let table = Table::of(
        "| `ackgate_lane_lag` | gauge | `topic`, `partition` | how far |\n\
         | `ackgate_done_total` | counter | `topic` | what |\n\
         | `ackgate_time_seconds` | histogram (`_bucket`, `_sum`, `_count`) | `topic` | when |\n",
    );
    let good = [
        "sum by (topic) (rate(ackgate_done_total{instance=~\"$instance\"}[$__rate_interval]))",
        "histogram_quantile(0.9, sum by (topic, le) (rate(ackgate_time_seconds_bucket[5m])))",
        "rate(ackgate_time_seconds_sum[5m]) / rate(ackgate_time_seconds_count[5m])",
        "topk(3, ackgate_lane_lag) > 5 unless on (instance) up{job=\"ackgate\"} == 0",
        "sum by (topic) (ackgate_lane_lag) + on (topic) group_left () sum by (topic) (ackgate_lane_lag)",
    ];
    for expression in good {
        let found = Asked::expression(expression).complaints(&table);
        assert!(found.is_empty(), "{expression}: {found:?}");
    }
    let bad = [
        ("ackgate_lane_lags", "no metric"),
        ("node_load1", "no metric"),
        ("ackgate_done", "no metric"),
        ("ackgate_time_seconds", "_bucket"),
        ("ackgate_lane_lag{subscriber=\"a\"}", "subscriber"),
        ("sum by (partition) (ackgate_done_total)", "partition"),
        (
            "sum by (partition) (sum by (topic) (ackgate_lane_lag))",
            "partition",
        ),
        ("ackgate_lane_lag / on (kind) ackgate_lane_lag", "kind"),
        ("rate(ackgate_lane_lag[5m])", "gauge"),
        ("sum(ackgate_done_total)", "since the start"),
        (
            "histogram_quantile(0.9, sum by (topic) (rate(ackgate_time_seconds_bucket[5m])))",
            "le",
        ),
        ("sum(", "cannot be read"),
    ];
    for (expression, why) in bad {
        let found = Asked::expression(expression).complaints(&table);
        assert!(
            found.iter().any(|complaint| complaint.contains(why)),
            "{expression}: {found:?}"
        );
    }
    let legend = Asked::expression("sum by (topic) (ackgate_lane_lag)").shown("{{partition}}");
    assert!(
        !legend.complaints(&table).is_empty(),
        "a legend is looked at"
    );
}
