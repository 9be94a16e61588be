//! Options of what a lane does with its records become a [`Policy`].

use ackgate_lane::{Backoff, OnReject, Order, Policy, Window};

use super::{
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    unwritten_parse, value,
};

pub(super) fn policy(reader: &mut Reader<'_>, name: &str) -> Option<Policy> {
    let order = order(reader, name);
    let ack_deadline = reader.read(&options::ACK_DEADLINE, name, value::duration);
    let max_attempts = reader.read(&options::MAX_ATTEMPTS, name, value::small);
    let max_deliveries = reader.read(&options::MAX_DELIVERIES, name, value::small);
    let backoff = backoff(
        reader,
        name,
        [
            &options::BACKOFF_INITIAL,
            &options::BACKOFF_FACTOR,
            &options::BACKOFF_MAX,
        ],
    );
    let dead_letter_backoff = backoff_of_dead_letters(reader, name);
    let on_unwritten = unwritten_parse::on_unwritten(reader, name);
    let breaker = unwritten_parse::breaker(reader, name);
    let on_reject = reader.read(&options::ON_REJECT, name, value::choice);
    let records = reader.read(&options::WINDOW_RECORDS, name, value::small);
    let span = reader.read(&options::WINDOW_SPAN, name, value::integer);
    let commit_interval = reader.read(&options::COMMIT_INTERVAL, name, value::duration);
    let commit_settlements = reader.read(&options::COMMIT_SETTLEMENTS, name, value::integer);

    if let (Some(attempts), Some(deliveries)) = (max_attempts, max_deliveries)
        && deliveries < attempts
    {
        let why = format!(
            "must be at least max_attempts, which is {attempts}: every attempt is a delivery, so \
             the attempts could never be used up"
        );
        reader.refuse(&options::MAX_DELIVERIES, name, why);
    }
    if let (Some(records), Some(span)) = (records, span)
        && u64::from(records) > span
    {
        let why = format!(
            "must be at most window.span, which is {span}: so many records never fit into fewer \
             offsets"
        );
        reader.refuse(&options::WINDOW_RECORDS, name, why);
    }
    Some(Policy {
        order: order?,
        ack_deadline: ack_deadline?,
        max_attempts: max_attempts?,
        max_deliveries: max_deliveries?,
        backoff: backoff?,
        on_reject: match on_reject? {
            "drop" => OnReject::Drop,
            "hold" => OnReject::Hold,
            _ => OnReject::DeadLetter,
        },
        dead_letter_backoff: dead_letter_backoff?,
        on_unwritten: on_unwritten?,
        breaker: breaker?,
        window: Window {
            records: records?,
            span: span?,
        },
        commit_interval: commit_interval?,
        commit_settlements: commit_settlements?,
        exactly_once: reader.read(&options::DEAD_LETTER_EXACTLY_ONCE, name, value::flag)?,
    })
}

fn order(reader: &mut Reader<'_>, name: &str) -> Option<Order> {
    let order = match reader.given(&options::ORDER, name) {
        Some(_) => reader.read(&options::ORDER, name, value::choice),
        None => Some(default_order(reader, name)),
    };
    let skip_acked = reader.read(&options::SKIP_ACKED, name, value::flag);
    let key_share = reader.read(&options::KEY_SHARE, name, value::float);
    let order = order?;
    if skip_acked == Some(true) && order != "lane" {
        let why = "has a meaning with order = \"lane\" only: with others, what is acked is never \
                   delivered again";
        reader.refuse(&options::SKIP_ACKED, name, why);
    }
    if order != "key" && reader.given(&options::KEY_SHARE, name).is_some() {
        let why = "has a meaning with order = \"key\" only: with others no key takes a share";
        reader.refuse(&options::KEY_SHARE, name, why);
    }
    Some(match order {
        "lane" => Order::Lane {
            skip_acked: skip_acked?,
        },
        "key" => Order::Key {
            share: thousandths(key_share?),
        },
        _ => Order::None,
    })
}

/// A part of 1, to the thousandth.
pub(super) fn thousandths(part: f64) -> u16 {
    // What is read has passed its bounds, and none is far from 1.
    (1..=1000)
        .find(|n| f64::from(*n) >= part.mul_add(1000.0, -0.5))
        .unwrap_or(1000)
}

/// A broadcast keeps the order of the lane unless it is told otherwise.
fn default_order(reader: &Reader<'_>, name: &str) -> &'static str {
    let delivery = reader.given(&options::DELIVERY, name).and_then(Node::text);
    if delivery == Some("broadcast") {
        "lane"
    } else {
        "key"
    }
}

fn backoff_of_dead_letters(reader: &mut Reader<'_>, name: &str) -> Option<Backoff> {
    let of = [
        &options::DEAD_LETTER_BACKOFF_INITIAL,
        &options::DEAD_LETTER_BACKOFF_FACTOR,
        &options::DEAD_LETTER_BACKOFF_MAX,
    ];
    backoff(reader, name, of)
}

fn backoff(reader: &mut Reader<'_>, name: &str, of: [&Spec; 3]) -> Option<Backoff> {
    let [initial, factor, max] = of;
    let first = reader.read(initial, name, value::duration);
    let factor = reader.read(factor, name, value::float);
    let last = reader.read(max, name, value::duration);
    let (first, last) = (first?, last?);
    if first > last {
        let why = format!(
            "must be at least initial, which is {}",
            options::span(first)
        );
        reader.refuse(max, name, why);
        return None;
    }
    Some(Backoff {
        initial: first,
        factor: factor?,
        max: last,
    })
}
