//! A [`Picture`] as OTLP's messages.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

use super::{
    names::{Kind, Spec},
    picture::{Label, Picture, Series, Spread, Value},
};

/// Who sends it: names and values.
pub(super) type Attributes<'a> = &'a [(&'static str, String)];

/// Since when it was counted, and what time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) started: SystemTime,
    pub(super) now: SystemTime,
}

/// The picture as a request to a receiver.
pub(super) fn request(
    picture: &Picture,
    from: Attributes<'_>,
    span: Span,
) -> ExportMetricsServiceRequest {
    let metrics = picture.families();
    let scope = ScopeMetrics {
        scope: Some(InstrumentationScope {
            name: "ackgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        }),
        metrics: metrics
            .map(|(spec, series)| metric(spec, series, span))
            .collect(),
        ..ScopeMetrics::default()
    };
    let attributes = from.iter().map(|(name, value)| attribute(name, value));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: attributes.collect(),
                ..Resource::default()
            }),
            scope_metrics: vec![scope],
            ..ResourceMetrics::default()
        }],
    }
}

fn metric(spec: &Spec, series: &[Series], span: Span) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let numbers = || {
        let points = series.iter();
        points
            .filter_map(|series| number(spec, series, span))
            .collect()
    };
    let data = match spec.kind {
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: numbers(),
        }),
        Kind::Counter => Data::Sum(Sum {
            data_points: numbers(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: series
                .iter()
                .filter_map(|series| spread(spec, series, span))
                .collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: spec.name.to_owned(),
        description: spec.help.to_owned(),
        unit: spec.unit.ucum().to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn number(spec: &Spec, (labels, value): &Series, span: Span) -> Option<NumberDataPoint> {
    let value = match value {
        Value::Whole(number) => {
            number_data_point::Value::AsInt(i64::try_from(*number).unwrap_or(i64::MAX))
        }
        Value::Real(number) => number_data_point::Value::AsDouble(*number),
        Value::Spread(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(spec, labels),
        start_time_unix_nano: start(spec, span),
        time_unix_nano: nanos(span.now),
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn spread(spec: &Spec, (labels, value): &Series, span: Span) -> Option<HistogramDataPoint> {
    let Value::Spread(spread) = value else {
        return None;
    };
    let Spread {
        classes,
        above,
        sum,
    } = spread;
    let (bounds, mut counts): (Vec<f64>, Vec<u64>) = classes.iter().copied().unzip();
    counts.push(*above);
    Some(HistogramDataPoint {
        attributes: attributes(spec, labels),
        start_time_unix_nano: start(spec, span),
        time_unix_nano: nanos(span.now),
        count: spread.count(),
        sum: Some(*sum),
        bucket_counts: counts,
        explicit_bounds: bounds,
        ..HistogramDataPoint::default()
    })
}

/// What is now has no beginning.
fn start(spec: &Spec, span: Span) -> u64 {
    match spec.kind {
        Kind::Counter | Kind::Histogram => nanos(span.started),
        Kind::Gauge => 0,
    }
}

fn attributes(spec: &Spec, labels: &[Label]) -> Vec<KeyValue> {
    let named = spec.labels.iter().zip(labels);
    named
        .map(|(name, label)| attribute(name, &label.text()))
        .collect()
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::names, *};

    #[test]
    fn counters_are_sums_since_the_start_and_histograms_keep_their_classes() {
        let mut picture = Picture::default();
        let of = || vec!["orders".into(), "main".into()];
        picture.put(&names::DELIVERED_RECORDS, of(), 7u64);
        picture.put(&names::LANES, of(), 3u64);
        let classes = vec![(0.5, 2), (1.0, 1)];
        let spread = Spread {
            classes,
            above: 4,
            sum: 9.0,
        };
        picture.put(&names::COMMIT_TIMES, of(), spread);
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let span = Span {
            started: at(5),
            now: at(9),
        };
        let request = request(&picture, &[("service.name", "ackgate".to_owned())], span);
        let resource = &request.resource_metrics[0];
        let from = resource.resource.as_ref().expect("it says who sends");
        assert_eq!(from.attributes, [attribute("service.name", "ackgate")]);
        let metrics = &resource.scope_metrics[0].metrics;
        let find = |name: &str| {
            let metric = metrics.iter().find(|metric| metric.name == name);
            metric.unwrap_or_else(|| panic!("{name} is there"))
        };
        let delivered = find("ackgate_delivered_records_total");
        assert_eq!(delivered.unit, "{record}");
        let Some(Data::Sum(sum)) = &delivered.data else {
            panic!("{delivered:?}");
        };
        assert!(sum.is_monotonic);
        let point = &sum.data_points[0];
        assert_eq!(point.value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!(
            (point.start_time_unix_nano, point.time_unix_nano),
            (5_000_000_000, 9_000_000_000)
        );
        assert_eq!(
            point.attributes,
            [
                attribute("subscription", "orders"),
                attribute("cluster", "main")
            ]
        );
        assert!(matches!(find("ackgate_lanes").data, Some(Data::Gauge(_))));
        let Some(Data::Histogram(times)) = &find("ackgate_commit_duration_seconds").data else {
            panic!("no histogram");
        };
        let point = &times.data_points[0];
        assert_eq!(point.bucket_counts, [2, 1, 4]);
        assert_eq!(point.explicit_bounds, [0.5, 1.0]);
        assert_eq!((point.count, point.sum), (7, Some(9.0)));
    }
}
