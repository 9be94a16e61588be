//! The series of lanes, each its own up to a number, the others summed.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    names,
    picture::{Label, Picture},
    subscription::real,
};
use crate::consumer::{Closed as _, MeasuredLane};

/// What stands for the partition where lanes are summed.
pub(super) const OTHER: &str = "other";

/// The lanes of one subscription, or the ad hoc ones of a cluster.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The subscription and its cluster.
    pub(super) names: [Label; 2],
    /// Summed under this topic whatever their own are; `None`: each has its own.
    pub(super) summed: Option<&'static str>,
    /// By topic and partition.
    pub(super) lanes: Vec<MeasuredLane>,
}

/// Puts the lanes of all subscriptions into the picture: the first `most` have series of
/// their own, the others one for each topic.
pub(super) fn put(picture: &mut Picture, all: &[Lanes], most: usize) {
    let mut left = most;
    for of in all {
        let mut sums: BTreeMap<Label, MeasuredLane> = BTreeMap::new();
        for lane in &of.lanes {
            let topic = match of.summed {
                Some(topic) => Label::Fixed(topic),
                None if left > 0 => {
                    left -= 1;
                    let partition = Label::Number(lane.partition);
                    put_lane(picture, of, ((&lane.topic).into(), partition), lane, true);
                    continue;
                }
                None => (&lane.topic).into(),
            };
            match sums.get_mut(&topic) {
                Some(sum) => join(sum, lane),
                None => {
                    sums.insert(topic, lane.clone());
                }
            }
        }
        for (topic, sum) in sums {
            put_lane(picture, of, (topic, OTHER.into()), &sum, false);
        }
    }
}

/// Adds what can be added, and keeps the worst of the rest.
fn join(sum: &mut MeasuredLane, lane: &MeasuredLane) {
    sum.lag_records = sum.lag_records.saturating_add(lane.lag_records);
    sum.lag = sum.lag.max(lane.lag);
    sum.stood = sum.stood.max(lane.stood);
    sum.unsettled += lane.unsettled;
    sum.window += lane.window;
    sum.out += lane.out;
    sum.delayed += lane.delayed;
    sum.behind += lane.behind;
    sum.dead_lettering += lane.dead_lettering;
    sum.parked += lane.parked;
    sum.retained += lane.retained;
    sum.held = sum.held.or(lane.held);
    sum.stalled |= lane.stalled;
}

fn put_lane(
    picture: &mut Picture,
    of: &Lanes,
    (topic, partition): (Label, Label),
    lane: &MeasuredLane,
    alone: bool,
) {
    let mut labels = of.names.to_vec();
    labels.extend([topic, partition]);
    let mut put = |spec, value: u64| picture.put(spec, labels.clone(), value);
    put(&names::LAG_RECORDS, lane.lag_records);
    put(&names::UNSETTLED, lane.unsettled);
    put(&names::OUT, lane.out);
    put(&names::DELAYED, lane.delayed);
    put(&names::BEHIND, lane.behind);
    put(&names::DEAD_LETTERING, lane.dead_lettering);
    put(&names::PARKED, lane.parked);
    put(&names::RETAINED, lane.retained);
    put(&names::STALLED, lane.stalled.into());
    if alone {
        for (spec, position) in [
            (&names::FLOOR, lane.floor),
            (&names::COMMITTED_POSITION, lane.committed),
            (&names::HEAD, lane.head),
        ] {
            if let Some(position) = position {
                put(spec, position);
            }
        }
    }
    let window = real(lane.unsettled) / real(lane.window.max(1));
    for (spec, value) in [
        (&names::LAG_SECONDS, lane.lag.as_secs_f64()),
        (&names::STOOD, lane.stood.as_secs_f64()),
        (&names::WINDOW, window),
    ] {
        picture.put(spec, labels.clone(), value);
    }
    if let Some(held) = lane.held {
        labels.push(held.name().into());
        picture.put(&names::HELD, labels, 1u64);
    }
}

/// A name of the configuration as a label.
pub(super) fn shared(name: &str) -> Arc<str> {
    Arc::from(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::metrics::picture::Value;

    fn lane(topic: &str, partition: i32, lag: u64) -> MeasuredLane {
        MeasuredLane {
            topic: shared(topic),
            partition,
            floor: Some(5),
            lag_records: lag,
            lag: Duration::from_secs(lag),
            window: 100,
            unsettled: 10,
            ..MeasuredLane::default()
        }
    }

    fn of(lanes: Vec<MeasuredLane>, summed: Option<&'static str>) -> Lanes {
        Lanes {
            names: ["orders".into(), "main".into()],
            summed,
            lanes,
        }
    }

    fn series(picture: &Picture, name: &str) -> Vec<(String, Value)> {
        let families = picture.families().filter(|(spec, _)| spec.name == name);
        let series = families.flat_map(|(_, series)| series);
        series
            .map(|(labels, value)| {
                let place = labels.iter().skip(2).map(|label| label.text());
                (place.collect::<Vec<_>>().join("/"), value.clone())
            })
            .collect()
    }

    #[test]
    fn lanes_beyond_the_most_are_summed_by_topic() {
        let mut picture = Picture::default();
        let lanes = vec![
            lane("a", 0, 1),
            lane("a", 1, 2),
            lane("a", 2, 4),
            lane("b", 0, 8),
        ];
        put(&mut picture, &[of(lanes, None)], 1);
        let expected = [("a/0", 1), ("a/other", 6), ("b/other", 8)];
        let expected = expected.map(|(place, lag)| (place.to_owned(), Value::Whole(lag)));
        assert_eq!(series(&picture, "ackgate_lane_lag_records"), expected);
        let seconds = series(&picture, "ackgate_lane_lag_seconds");
        assert_eq!(
            seconds[1],
            ("a/other".to_owned(), Value::Real(4.0)),
            "the worst"
        );
        let ratio = series(&picture, "ackgate_lane_window_ratio");
        assert_eq!(ratio[1], ("a/other".to_owned(), Value::Real(0.1)));
        let floors = series(&picture, "ackgate_lane_floor_position");
        assert_eq!(floors.len(), 1, "positions have no sum");
    }

    #[test]
    fn lanes_of_topics_that_clients_chose_are_one() {
        let mut picture = Picture::default();
        let lanes = vec![lane("a", 0, 1), lane("b", 7, 2)];
        put(&mut picture, &[of(lanes, Some("(ad hoc)"))], 100);
        let expected = [("(ad hoc)/other".to_owned(), Value::Whole(3))];
        assert_eq!(series(&picture, "ackgate_lane_lag_records"), expected);
    }

    #[test]
    fn a_lane_that_stands_says_why_and_another_has_no_such_series() {
        let mut picture = Picture::default();
        let mut standing = lane("a", 1, 0);
        standing.held = Some(crate::consumer::HeldBy::Breaker);
        put(
            &mut picture,
            &[of(vec![lane("a", 0, 0), standing], None)],
            10,
        );
        let expected = [("a/1/breaker".to_owned(), Value::Whole(1))];
        assert_eq!(series(&picture, "ackgate_lane_held"), expected);
    }
}
