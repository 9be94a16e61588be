//! A lane as the commands show it: a row for people, an object for programs.

use ackgate_proto::v1::{Lane, LaneHold};
use anyhow::Result;
use serde::Serialize;

use crate::cli::output;

/// One lane.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ShownLane {
    subscription: String,
    topic: String,
    partition: i32,
    epoch: u64,
    floor: Option<i64>,
    committed: Option<i64>,
    head: Option<i64>,
    unsettled: u64,
    out: u64,
    delayed: u64,
    dead_lettering: u64,
    parked: u64,
    /// Waiting for an earlier one of their key.
    behind: u64,
    /// `null`: it does not hold.
    hold: Option<&'static str>,
    hold_detail: Option<String>,
    /// RFC 3339.
    held_since: Option<String>,
    /// `null`: for nothing but records and verdicts.
    waits_for: Option<String>,
}

impl From<Lane> for ShownLane {
    fn from(lane: Lane) -> Self {
        let hold = match lane.hold() {
            LaneHold::Unspecified => None,
            LaneHold::DeadLetterBlocked => Some("dead-letter-blocked"),
            LaneHold::BreakerOpen => Some("breaker-open"),
            LaneHold::Rejected => Some("rejected"),
            LaneHold::Unreadable => Some("unreadable"),
            LaneHold::Stalled => Some("stalled"),
            LaneHold::GroupSilent => Some("group-silent"),
        };
        let since = lane.held_since.and_then(|at| {
            let at = std::time::SystemTime::try_from(at).ok()?;
            Some(humantime::format_rfc3339_millis(at).to_string())
        });
        let detail = plain(&lane.hold_detail);
        Self {
            subscription: lane.subscription,
            topic: lane.topic,
            partition: lane.partition,
            epoch: lane.epoch,
            floor: lane.floor,
            committed: lane.committed,
            head: lane.head,
            unsettled: lane.unsettled,
            out: lane.out,
            delayed: lane.delayed,
            dead_lettering: lane.dead_lettering,
            parked: lane.parked,
            behind: lane.behind,
            hold,
            hold_detail: Some(detail).filter(|detail| !detail.is_empty()),
            held_since: since,
            waits_for: Some(plain(&lane.waits_for)).filter(|words| !words.is_empty()),
        }
    }
}

/// Prints lanes: as a JSON array, or with `above` over a table; people read `none` if
/// there are none.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print(lanes: Vec<Lane>, json: bool, none: &str, above: &str) -> Result<()> {
    let lanes: Vec<ShownLane> = lanes.into_iter().map(ShownLane::from).collect();
    if json {
        return output::json(&lanes);
    }
    output::line(&if lanes.is_empty() {
        none.to_owned()
    } else {
        format!("{above}{}", table(&lanes))
    })?;
    Ok(())
}

/// As a table, and under it why lanes hold and what others wait for.
fn table(lanes: &[ShownLane]) -> String {
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let rows = lanes
        .iter()
        .map(|lane| {
            [
                lane.subscription.clone(),
                lane.topic.clone(),
                lane.partition.to_string(),
                number(lane.floor),
                number(lane.committed),
                number(lane.head),
                lane.unsettled.to_string(),
                lane.out.to_string(),
                lane.delayed.to_string(),
                lane.behind.to_string(),
                lane.dead_lettering.to_string(),
                lane.parked.to_string(),
                lane.hold.unwrap_or("-").to_owned(),
            ]
        })
        .collect();
    let head = [
        "SUBSCRIPTION",
        "TOPIC",
        "PARTITION",
        "FLOOR",
        "COMMITTED",
        "HEAD",
        "UNSETTLED",
        "OUT",
        "DELAYED",
        "BEHIND",
        "LETTERS",
        "PARKED",
        "HOLD",
    ];
    let mut text = output::table(head, rows);
    for lane in lanes {
        if let Some(hold) = lane.hold {
            text.push_str(&format!(
                "\n{} {}/{}: {hold}: {}",
                lane.subscription,
                lane.topic,
                lane.partition,
                lane.hold_detail.as_deref().unwrap_or("no detail"),
            ));
            if let Some(since) = &lane.held_since {
                text.push_str(&format!(" (since {since})"));
            }
        } else if let Some(words) = &lane.waits_for {
            text.push_str(&format!(
                "\n{} {}/{}: waits: {words}",
                lane.subscription, lane.topic, lane.partition,
            ));
        }
    }
    text
}

/// What brokers and clients have put into words must not steer a terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane {
            subscription: "orders".to_owned(),
            topic: "orders".to_owned(),
            partition: 3,
            floor: Some(100),
            committed: None,
            unsettled: 7,
            dead_lettering: 5,
            hold: LaneHold::BreakerOpen.into(),
            hold_detail: "breaker open:\u{1b}[2J 100 records".to_owned(),
            held_since: Some(prost_types::Timestamp {
                seconds: 1_700_000_000,
                nanos: 5_000_000,
            }),
            ..Lane::default()
        }
    }

    #[test]
    fn a_held_lane_says_why_and_since_when_and_steers_no_terminal() {
        let shown = table(&[ShownLane::from(lane())]);
        let last = shown.lines().last().expect("a line");
        assert_eq!(
            last,
            "orders orders/3: breaker-open: breaker open: [2J 100 records (since \
             2023-11-14T22:13:20.005Z)"
        );
    }

    #[test]
    fn each_column_has_its_own_number() {
        let counted = Lane {
            head: Some(108),
            committed: Some(99),
            unsettled: 15,
            out: 1,
            delayed: 2,
            behind: 3,
            dead_lettering: 4,
            parked: 5,
            hold: LaneHold::Unspecified.into(),
            ..lane()
        };
        let shown = table(&[ShownLane::from(counted)]);
        let cells: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for (column, value) in [
            ("PARTITION", "3"),
            ("FLOOR", "100"),
            ("COMMITTED", "99"),
            ("HEAD", "108"),
            ("UNSETTLED", "15"),
            ("OUT", "1"),
            ("DELAYED", "2"),
            ("BEHIND", "3"),
            ("LETTERS", "4"),
            ("PARKED", "5"),
            ("HOLD", "-"),
        ] {
            let at = cells[0].iter().position(|name| *name == column);
            assert_eq!(cells[1][at.expect(column)], value, "{column}");
        }
    }

    #[test]
    fn a_lane_that_waits_says_for_what_and_holds_not() {
        let waiting = Lane {
            hold: LaneHold::Unspecified.into(),
            waits_for: "no subscriber is\nattached".to_owned(),
            ..lane()
        };
        let shown = ShownLane::from(waiting);
        assert_eq!((shown.hold, shown.waits_for.is_some()), (None, true));
        let table = table(&[shown]);
        let last = table.lines().last().expect("a line");
        assert_eq!(last, "orders orders/3: waits: no subscriber is attached");
    }

    #[test]
    fn programs_get_what_is_not_known_as_null() {
        let json = serde_json::to_value(ShownLane::from(lane())).expect("plain values");
        assert_eq!(json["floor"], 100);
        assert!(json["committed"].is_null());
        let quiet = ShownLane::from(Lane::default());
        let json = serde_json::to_value(quiet).expect("plain values");
        assert!(json["hold"].is_null() && json["hold_detail"].is_null());
    }
}
