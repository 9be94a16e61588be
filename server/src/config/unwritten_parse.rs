//! Options about dead letters that cannot be written, and about too many of them.

use ackgate_lane::{Breaker, OnUnwritten, Ratio};

use super::{options, policy_parse::thousandths, reader::Reader, tree::Node, value};

/// What happens while a dead letter cannot be written.
pub(super) fn on_unwritten(reader: &mut Reader<'_>, name: &str) -> Option<OnUnwritten> {
    let word = reader.read(&options::DEAD_LETTER_ON_FAILURE, name, value::choice);
    let tries = reader.read(&options::DEAD_LETTER_TRIES, name, value::small);
    let word = word?;
    if word == "block" && reader.given(&options::DEAD_LETTER_TRIES, name).is_some() {
        let why = "has a meaning with dead_letter.on_failure = \"park\" or \"discard\" only: with \
                   \"block\" a dead letter is tried again for ever";
        reader.refuse(&options::DEAD_LETTER_TRIES, name, why);
    }
    if word == "park" && holds_in_lane_order(reader, name) {
        let why = "has no meaning with order = \"lane\": nothing may overtake a record that is not \
                   settled, so a lane could not go on without it; use \"block\" or \"discard\"";
        reader.refuse(&options::DEAD_LETTER_ON_FAILURE, name, why);
    }
    let tries = tries?;
    Some(match word {
        "park" => OnUnwritten::Park { tries },
        "discard" => OnUnwritten::Discard { tries },
        _ => OnUnwritten::Block,
    })
}

/// In a broadcast each subscriber has its order for itself, and has decided by then.
fn holds_in_lane_order(reader: &Reader<'_>, name: &str) -> bool {
    let is = |spec, word| reader.given(spec, name).and_then(Node::text) == Some(word);
    is(&options::ORDER, "lane") && !is(&options::DELIVERY, "broadcast")
}

/// How many records may be given up.
pub(super) fn breaker(reader: &mut Reader<'_>, name: &str) -> Option<Breaker> {
    let is_given = |reader: &Reader<'_>, spec| reader.given(spec, name).is_some();
    let run = is_given(reader, &options::BREAKER_RUN)
        .then(|| reader.read(&options::BREAKER_RUN, name, value::small));
    let by_ratio = is_given(reader, &options::BREAKER_RATIO);
    let part = by_ratio.then(|| reader.read(&options::BREAKER_RATIO, name, value::float));
    let of = reader.read(&options::BREAKER_WINDOW, name, value::small);
    if !by_ratio && is_given(reader, &options::BREAKER_WINDOW) {
        let why = "has a meaning with dead_letter.breaker.ratio only: a run has no window";
        reader.refuse(&options::BREAKER_WINDOW, name, why);
    }
    let of = of?;
    // Given and wrong has been reported.
    let run = match run {
        None => None,
        Some(run) => Some(run?),
    };
    let ratio = match part {
        None => None,
        Some(part) => Some(Ratio {
            part: thousandths(part?),
            of,
        }),
    };
    Some(Breaker { run, ratio })
}
