//! Expressions of PromQL: which labels their results have, and what is wrong with them.

use std::collections::BTreeSet;

use promql_parser::{
    label::Matchers,
    parser::{
        self, AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality,
        VectorSelector,
        token::{T_BOTTOMK, T_LIMITK, T_LOR, T_TOPK},
    },
};

use super::metrics::{Kind, Table};

/// Labels of a result.
pub(crate) type Labels = BTreeSet<String>;

/// Functions that make a counter's growth of it.
const GROWTH: [&str; 4] = ["rate", "irate", "increase", "resets"];

/// Functions whose results have no labels.
const BARE: [&str; 5] = ["vector", "scalar", "time", "absent", "absent_over_time"];

/// Reads expressions and gathers what is wrong with them.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    table: &'a Table,
    /// What was found.
    pub(crate) complaints: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self {
            table,
            complaints: Vec::new(),
        }
    }

    /// The labels that the results of an expression can have.
    pub(crate) fn read(&mut self, expression: &str) -> Labels {
        match parser::parse(&filled_in(expression)) {
            Ok(tree) => self.labels(&tree, false),
            Err(error) => {
                self.complaints.push(format!("cannot be read: {error}"));
                Labels::new()
            }
        }
    }

    /// `growth`: whether what reads this takes counters.
    fn labels(&mut self, expression: &Expr, growth: bool) -> Labels {
        match expression {
            Expr::Aggregate(it) => self.aggregate(it),
            Expr::Binary(it) => self.binary(it),
            Expr::Call(it) => self.call(it),
            Expr::Paren(it) => self.labels(&it.expr, growth),
            Expr::Unary(it) => self.labels(&it.expr, growth),
            Expr::Subquery(it) => self.labels(&it.expr, false),
            Expr::VectorSelector(it) => self.series(it, growth),
            Expr::MatrixSelector(it) => self.series(&it.vs, growth),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Labels::new(),
        }
    }

    fn series(&mut self, selector: &VectorSelector, growth: bool) -> Labels {
        let Some(name) = &selector.name else {
            self.complaints.push("a selector without a name".to_owned());
            return Labels::new();
        };
        match self.table.series(name) {
            Err(why) => {
                self.complaints.push(why);
                Labels::new()
            }
            Ok(series) => {
                match (series.kind, growth) {
                    (Kind::Gauge, true) => {
                        self.complaints
                            .push(format!("{name} is a gauge: it has no rate"));
                    }
                    (Kind::Counter | Kind::Histogram, false) => self.complaints.push(format!(
                        "{name} counts since the start of a gateway: take its rate or increase"
                    )),
                    (Kind::Gauge, false) | (Kind::Counter | Kind::Histogram, true) => {}
                }
                let Matchers { matchers, .. } = &selector.matchers;
                let asked = matchers.iter().map(|matcher| matcher.name.clone());
                self.need(&asked.collect::<Vec<_>>(), &series.labels, name);
                series.labels
            }
        }
    }

    fn need(&mut self, asked: &[String], labels: &Labels, of: &str) {
        for label in asked.iter().filter(|label| !labels.contains(*label)) {
            self.complaints.push(format!("{of} has no label {label}"));
        }
    }

    fn aggregate(&mut self, it: &AggregateExpr) -> Labels {
        let inner = self.labels(&it.expr, false);
        let picks = [T_TOPK, T_BOTTOMK, T_LIMITK].contains(&it.op.id());
        let shown = it.to_string();
        match &it.modifier {
            Some(LabelModifier::Include(by)) => self.need(&by.labels, &inner, &shown),
            Some(LabelModifier::Exclude(by)) => self.need(&by.labels, &inner, &shown),
            None => {}
        }
        match &it.modifier {
            _ if picks => inner,
            Some(LabelModifier::Include(by)) => by.labels.iter().cloned().collect(),
            Some(LabelModifier::Exclude(by)) => without(inner, &by.labels),
            None => Labels::new(),
        }
    }

    fn binary(&mut self, it: &BinaryExpr) -> Labels {
        let left = self.labels(&it.lhs, false);
        let right = self.labels(&it.rhs, false);
        // A number on one side leaves the other's labels as they are.
        for (side, other) in [(&it.lhs, &right), (&it.rhs, &left)] {
            if side.value_type() == parser::value::ValueType::Scalar {
                return other.clone();
            }
        }
        let shown = it.to_string();
        let Some(modifier) = &it.modifier else {
            return match it.op.id() == T_LOR {
                true => left.union(&right).cloned().collect(),
                false => left,
            };
        };
        if let Some(matching) = &modifier.matching {
            self.need(&matching.labels().labels, &left, &shown);
            self.need(&matching.labels().labels, &right, &shown);
        }
        match &modifier.card {
            VectorMatchCardinality::ManyToOne(extra) => {
                self.need(&extra.labels, &right, &shown);
                left.into_iter().chain(extra.labels.clone()).collect()
            }
            VectorMatchCardinality::OneToMany(extra) => {
                self.need(&extra.labels, &left, &shown);
                right.into_iter().chain(extra.labels.clone()).collect()
            }
            VectorMatchCardinality::ManyToMany if it.op.id() == T_LOR => {
                left.union(&right).cloned().collect()
            }
            VectorMatchCardinality::ManyToMany => left,
            VectorMatchCardinality::OneToOne => match &modifier.matching {
                Some(LabelModifier::Include(on)) if !it.op.is_comparison_operator() => {
                    on.labels.iter().cloned().collect()
                }
                Some(LabelModifier::Exclude(ignored)) => without(left, &ignored.labels),
                Some(LabelModifier::Include(_)) | None => left,
            },
        }
    }

    fn call(&mut self, it: &Call) -> Labels {
        let name = it.func.name;
        let growth = GROWTH.contains(&name);
        let parts = it.args.args.iter().map(|part| self.labels(part, growth));
        let mut labels: Labels = parts.flatten().collect();
        if BARE.contains(&name) {
            return Labels::new();
        }
        if name == "histogram_quantile" && !labels.remove("le") {
            self.complaints.push(format!("{it}: without the label le"));
        }
        labels
    }
}

fn without(labels: Labels, gone: &[String]) -> Labels {
    labels
        .into_iter()
        .filter(|label| !gone.contains(label))
        .collect()
}

/// The expression as Grafana would send it: times in place of its own variables. Its other
/// variables stand in strings, where they may stay.
fn filled_in(expression: &str) -> String {
    let times = ["$__rate_interval", "$__interval", "$__range"];
    times
        .iter()
        .fold(expression.to_owned(), |text, name| text.replace(name, "5m"))
}
