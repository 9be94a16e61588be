//! A [`Picture`] in the text formats that Prometheus reads.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, prometheus_text, text,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{self, Registry},
};

use super::{
    names::{Kind, Spec, Unit},
    picture::{Picture, Series, Spread, Value},
};

/// Which of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a request accepts; whatever it says, it gets one of the two.
    pub(super) fn accepted(accept: &str) -> Self {
        let wants = |kind: &&str| {
            let mut parts = kind.split(';').map(str::trim);
            parts.next() == Some("application/openmetrics-text")
                && parts.all(|part| !matches!(part, "q=0" | "q=0.0"))
        };
        if accept.split(',').any(|kind| wants(&kind)) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The picture in it.
    pub(super) fn encode(self, picture: Picture) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Encoded(picture)));
        let mut text = String::new();
        match self {
            Self::Prometheus => prometheus_text::encode(&mut text, &registry)?,
            Self::OpenMetrics => text::encode(&mut text, &registry)?,
        }
        Ok(text)
    }
}

#[derive(Debug)]
struct Encoded(Picture);

impl Collector for Encoded {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (spec, series) in self.0.families() {
            family(&mut encoder, spec, series)?;
        }
        Ok(())
    }
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    spec: &Spec,
    series: &[Series],
) -> Result<(), fmt::Error> {
    let kind = match spec.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let unit = unit(spec.unit);
    let mut family = encoder.encode_descriptor(spec.base(), spec.help, unit.as_ref(), kind)?;
    if spec.labels.is_empty() {
        let (_, value) = series.first().ok_or(fmt::Error)?;
        return one(family, spec.kind, value);
    }
    for (labels, value) in series {
        let texts = labels.iter().map(|label| label.text());
        let labels: Vec<_> = spec.labels.iter().copied().zip(texts).collect();
        one(family.encode_family(&labels)?, spec.kind, value)?;
    }
    Ok(())
}

fn one(mut to: MetricEncoder<'_>, kind: Kind, value: &Value) -> Result<(), fmt::Error> {
    match (kind, value) {
        (Kind::Counter, Value::Whole(number)) => ConstCounter::new(*number).encode(to),
        (Kind::Counter, Value::Real(number)) => ConstCounter::new(*number).encode(to),
        (Kind::Gauge, Value::Whole(number)) => ConstGauge::new(*number).encode(to),
        (Kind::Gauge, Value::Real(number)) => ConstGauge::new(*number).encode(to),
        (Kind::Histogram, Value::Spread(spread)) => {
            let Spread {
                classes,
                above,
                sum,
            } = spread;
            let mut buckets = classes.clone();
            buckets.push((f64::INFINITY, *above));
            to.encode_histogram::<NoLabelSet>(*sum, spread.count(), &buckets, None)
        }
        // No such value is put under such a name.
        (Kind::Histogram, Value::Whole(_) | Value::Real(_))
        | (Kind::Counter | Kind::Gauge, Value::Spread(_)) => Err(fmt::Error),
    }
}

fn unit(unit: Unit) -> Option<registry::Unit> {
    match unit {
        Unit::None => None,
        Unit::Seconds => Some(registry::Unit::Seconds),
        Unit::Bytes => Some(registry::Unit::Bytes),
        Unit::Records | Unit::Offsets | Unit::Ratio => unit
            .suffix()
            .map(|name| registry::Unit::Other(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::names, *};

    fn picture() -> Picture {
        let mut picture = Picture::default();
        let of = || vec!["orders".into(), "main".into()];
        picture.put(&names::START_TIME, Vec::new(), 1.5);
        picture.put(&names::DELIVERED_BYTES, of(), 7u64);
        picture.put(
            &names::WINDOW,
            {
                let mut lane = of();
                lane.extend([
                    super::super::picture::Label::Name("a \"topic\"\n\\".into()),
                    super::super::picture::Label::Number(3),
                ]);
                lane
            },
            0.25,
        );
        let spread = Spread {
            classes: vec![(0.5, 2), (1.0, 1)],
            above: 4,
            sum: 9.0,
        };
        picture.put(&names::COMMIT_TIMES, of(), spread);
        picture
    }

    #[test]
    fn both_formats_name_series_alike() {
        let text = Format::Prometheus.encode(picture()).expect("it is encoded");
        assert_eq!(
            text,
            "# HELP ackgate_start_time_seconds When the gateway began, since the Unix epoch\n\
             # TYPE ackgate_start_time_seconds gauge\n\
             ackgate_start_time_seconds 1.5\n\
             # HELP ackgate_delivered_bytes_total Their bytes\n\
             # TYPE ackgate_delivered_bytes_total counter\n\
             ackgate_delivered_bytes_total{subscription=\"orders\",cluster=\"main\"} 7\n\
             # HELP ackgate_commit_duration_seconds From asking for a lane's commit until its answer\n\
             # TYPE ackgate_commit_duration_seconds histogram\n\
             ackgate_commit_duration_seconds_bucket{subscription=\"orders\",cluster=\"main\",le=\"0.5\"} 2\n\
             ackgate_commit_duration_seconds_bucket{subscription=\"orders\",cluster=\"main\",le=\"1\"} 3\n\
             ackgate_commit_duration_seconds_bucket{subscription=\"orders\",cluster=\"main\",le=\"+Inf\"} 7\n\
             ackgate_commit_duration_seconds_sum{subscription=\"orders\",cluster=\"main\"} 9.0\n\
             ackgate_commit_duration_seconds_count{subscription=\"orders\",cluster=\"main\"} 7\n\
             # HELP ackgate_lane_window_ratio That as a part of window.records; above 1 with records of one key beyond its share\n\
             # TYPE ackgate_lane_window_ratio gauge\n\
             ackgate_lane_window_ratio{subscription=\"orders\",cluster=\"main\",topic=\"a \\\"topic\\\"\\n\\\\\",partition=\"3\"} 0.25\n"
        );
        let open = Format::OpenMetrics
            .encode(picture())
            .expect("it is encoded");
        assert!(open.ends_with("# EOF\n"), "{open}");
        assert!(
            open.contains("# UNIT ackgate_delivered_bytes bytes\n"),
            "{open}"
        );
        let samples = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let mut names: Vec<String> = lines
                .map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(samples(&text), samples(&open));
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        for (accept, expected) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain;version=0.0.4", Format::Prometheus),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                Format::OpenMetrics,
            ),
            (
                "text/plain, application/openmetrics-text; q=0",
                Format::Prometheus,
            ),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
