//! What is asked of Prometheus: expressions in the dashboard and in the alert rules, and
//! the labels that are shown of their results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::tree,
    metrics::Table,
    promql::{Labels, Reader},
};

const DASHBOARD: &str = "server/deploy/grafana/ackgate.json";
const RULES: &str = "server/deploy/prometheus/ackgate.rules.yml";
const RULE_TESTS: &str = "server/deploy/prometheus/ackgate.rules.test.yml";

/// An expression, and where it stands.
#[derive(Debug)]
pub(crate) struct Asked {
    place: String,
    expression: String,
    /// Labels that are shown of each result.
    shown: Vec<String>,
    /// Labels that are added to each.
    added: Labels,
}

impl Asked {
    pub(crate) fn expression(expression: &str) -> Self {
        Self {
            place: expression.to_owned(),
            expression: expression.to_owned(),
            shown: Vec::new(),
            added: Labels::new(),
        }
    }

    /// With a text that is filled from each result's labels.
    pub(crate) fn shown(mut self, template: &str) -> Self {
        for part in template.split("{{").skip(1) {
            let inside = part.split("}}").next().unwrap_or_default().trim();
            match inside.strip_prefix("$labels.") {
                Some(label) => self.shown.push(label.to_owned()),
                None if inside.contains('$') => {}
                None => self.shown.push(inside.to_owned()),
            }
        }
        self
    }

    /// What is wrong with it.
    pub(crate) fn complaints(&self, table: &Table) -> Vec<String> {
        let mut reader = Reader::new(table);
        let labels = reader.read(&self.expression);
        let has = |label: &&String| !labels.contains(*label) && !self.added.contains(*label);
        for label in self.shown.iter().filter(has) {
            let complaint = format!("shows {label}, which results do not have");
            reader.complaints.push(complaint);
        }
        let complaints = reader.complaints.iter();
        complaints
            .map(|complaint| format!("{}: {complaint}", self.place))
            .collect()
    }
}

/// What the dashboard asks: its panels and its variables.
pub(crate) fn dashboards() -> impl Iterator<Item = Asked> {
    let file: Value = serde_json::from_str(&tree::text(DASHBOARD)).expect("it is JSON");
    let panels = at(&file, "/panels").as_array().expect("panels").iter();
    let inner = panels
        .clone()
        .flat_map(|panel| at(panel, "/panels").as_array().into_iter().flatten());
    let mut asked = Vec::new();
    for panel in panels.chain(inner) {
        let title = at(panel, "/title").as_str().unwrap_or_default();
        for target in at(panel, "/targets").as_array().into_iter().flatten() {
            let mut one = Asked::expression(at(target, "/expr").as_str().unwrap_or_default());
            one.place = format!("panel {title:?}, {}", at(target, "/refId"));
            let legend = at(target, "/legendFormat").as_str().unwrap_or_default();
            asked.push(one.shown(legend));
        }
    }
    for variable in at(&file, "/templating/list").as_array().expect("variables") {
        let Some(query) = at(variable, "/query/query").as_str() else {
            continue;
        };
        // `label_values(series, label)`
        let inside = query
            .strip_prefix("label_values(")
            .and_then(|it| it.strip_suffix(')'));
        let (series, label) = inside
            .and_then(|it| it.rsplit_once(", "))
            .unwrap_or_else(|| panic!("variable {}: {query}", at(variable, "/name")));
        let mut one = Asked::expression(series).shown(&format!("{{{{{label}}}}}"));
        one.place = format!("variable {}", at(variable, "/name"));
        asked.push(one);
    }
    for mark in at(&file, "/annotations/list")
        .as_array()
        .expect("annotations")
    {
        let Some(expression) = at(mark, "/expr").as_str() else {
            continue;
        };
        let mut one = Asked::expression(expression);
        one.place = format!("annotation {}", at(mark, "/name"));
        asked.push(one.shown(at(mark, "/titleFormat").as_str().unwrap_or_default()));
    }
    asked.into_iter()
}

/// Queries that a page shows: every line of its blocks of code.
pub(crate) fn page(path: &str) -> impl Iterator<Item = Asked> {
    let text = tree::text(path);
    let blocks = text.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    let asked: Vec<Asked> = lines
        .map(|line| {
            let mut one = Asked::expression(line);
            one.place = format!("{path}: {line}");
            one
        })
        .collect();
    assert!(!asked.is_empty(), "{path} shows no query");
    asked.into_iter()
}

/// An alert.
#[derive(Debug)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) severity: String,
    pub(crate) summary: String,
    pub(crate) description: String,
    pub(crate) runbook: String,
    expression: String,
    labels: Labels,
}

/// The alerts, in their order.
pub(crate) fn alerts() -> impl Iterator<Item = Alert> {
    let file = yaml(RULES);
    let groups = at(&file, "/groups").as_array().expect("groups").iter();
    let rules = groups.flat_map(|group| at(group, "/rules").as_array().expect("rules"));
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alert = |rule: &Value| Alert {
        name: words(at(rule, "/alert")),
        severity: words(at(rule, "/labels/severity")),
        summary: words(at(rule, "/annotations/summary")),
        description: words(at(rule, "/annotations/description")),
        runbook: words(at(rule, "/annotations/runbook")),
        expression: words(at(rule, "/expr")),
        labels: at(rule, "/labels")
            .as_object()
            .into_iter()
            .flat_map(|labels| labels.keys().cloned())
            .collect(),
    };
    let alerts: Vec<Alert> = rules.map(alert).collect();
    assert!(
        alerts.len() > 10,
        "{RULES} has only {} alerts",
        alerts.len()
    );
    alerts.into_iter()
}

/// What the alert rules ask.
pub(crate) fn rules() -> impl Iterator<Item = Asked> {
    alerts().map(|alert| {
        let one = Asked::expression(&alert.expression);
        let mut one = one.shown(&alert.summary).shown(&alert.description);
        one.place = format!("alert {}", alert.name);
        one.added = alert.labels;
        one
    })
}

/// Alerts that fire in some test of the rules.
pub(crate) fn fired_in_tests() -> BTreeSet<String> {
    let file = yaml(RULE_TESTS);
    let tests = at(&file, "/tests").as_array().expect("tests").iter();
    let cases = tests.flat_map(|test| {
        at(test, "/alert_rule_test")
            .as_array()
            .into_iter()
            .flatten()
    });
    let fires = cases.filter(|case| !at(case, "/exp_alerts").as_array().is_none_or(Vec::is_empty));
    fires
        .filter_map(|case| at(case, "/alertname").as_str().map(str::to_owned))
        .collect()
}

/// The part of a document that is there, or null.
pub(crate) fn at<'a>(document: &'a Value, path: &str) -> &'a Value {
    document.pointer(path).unwrap_or(&Value::Null)
}

pub(crate) fn yaml(path: &str) -> Value {
    let text = tree::text(path);
    let read: BTreeMap<String, Value> =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    Value::Object(read.into_iter().collect())
}
