//! Dead letters that cannot be written, too many of them, and who may say to go on.

use ackgate_lane::{Breaker, OnUnwritten, Order, Policy, Ratio};

use super::{LEAST, load_with, messages, orders, with};

fn policy(lines: &str) -> Policy {
    let config = load_with(&orders(lines), &[]).expect("valid");
    config.subscriptions[0].policy
}

#[test]
fn a_lane_blocks_and_no_breaker_opens_unless_they_are_told_otherwise() {
    let policy = policy("");
    assert_eq!(policy.on_unwritten, OnUnwritten::Block);
    assert_eq!(policy.breaker, Breaker::default());
}

#[test]
fn park_and_discard_act_after_so_many_tries() {
    let park = policy("dead_letter.on_failure = 'park'\ndead_letter.tries = 7");
    assert_eq!(park.on_unwritten, OnUnwritten::Park { tries: 7 });
    let discard = policy("dead_letter.on_failure = 'discard'");
    assert_eq!(discard.on_unwritten, OnUnwritten::Discard { tries: 5 });
}

#[test]
fn a_breaker_has_a_run_a_ratio_or_both() {
    let both = policy("dead_letter.breaker = { run = 50, ratio = 0.5, window = 20 }").breaker;
    let ratio = Ratio { part: 500, of: 20 };
    assert_eq!((both.run, both.ratio), (Some(50), Some(ratio)));
    let ratio = policy("dead_letter.breaker.ratio = 1.0").breaker;
    let all = Ratio {
        part: 1000,
        of: 100,
    };
    assert_eq!((ratio.run, ratio.ratio), (None, Some(all)));
}

#[test]
fn what_would_have_no_meaning_is_refused() {
    for (lines, expected) in [
        (
            "dead_letter.tries = 7",
            "dead_letter.tries = 7: has a meaning with",
        ),
        (
            "dead_letter.breaker = { run = 5, window = 20 }",
            "dead_letter.breaker.window = 20: has a meaning with",
        ),
        (
            "dead_letter.breaker.run = 0",
            "dead_letter.breaker.run = 0: must be 1 to 1000000 records",
        ),
        (
            "dead_letter.breaker.ratio = 1.1",
            "dead_letter.breaker.ratio = 1.1: must be a number from 0.01 to 1",
        ),
        (
            "dead_letter.on_failure = 'ignore'",
            "dead_letter.on_failure = \"ignore\": must be \"block\", \"park\" or \"discard\"",
        ),
    ] {
        let messages = messages(&orders(lines), &[]);
        assert_eq!(messages.len(), 1, "{lines}: {messages:?}");
        let start = format!("/etc/ackgate.toml:11: subscriptions.orders.{expected}");
        assert!(messages[0].starts_with(&start), "{messages:?}");
    }
}

#[test]
fn in_lane_order_nothing_could_go_on_without_a_parked_record() {
    let lane = with("order = \"none\"", "order = \"lane\"");
    let park = "dead_letter.on_failure = 'park'\n";
    let refused = messages(&format!("{lane}{park}"), &[]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].contains("has no meaning with order = \"lane\""),
        "{refused:?}"
    );
    let broadcast = format!("{lane}{park}delivery = 'broadcast'\n");
    let config = load_with(&broadcast, &[]).expect("each has its order for itself");
    let policy = &config.subscriptions[0].policy;
    assert_eq!(policy.order, Order::Lane { skip_acked: false });
    assert_eq!(policy.on_unwritten, OnUnwritten::Park { tries: 5 });
}

#[test]
fn operators_are_served_on_a_loopback_address_of_their_own_or_not_at_all() {
    assert_eq!(load_with(LEAST, &[]).expect("valid").admin, None);
    let at = |address: &str| format!("admin.address = \"{address}\"\n{LEAST}");
    let config = load_with(&at("[::1]:7655"), &[]).expect("valid");
    let admin = config.admin.expect("it is given");
    assert_eq!(admin.address.to_string(), "[::1]:7655");
    for (address, expected) in [
        ("0.0.0.0:7655", "must be a loopback address"),
        ("10.0.0.1:7655", "must be a loopback address"),
        ("127.0.0.1:7654", "is listen.address too"),
    ] {
        let refused = messages(&at(address), &[]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        let start = format!("/etc/ackgate.toml:1: admin.address = \"{address}\": {expected}");
        assert!(refused[0].starts_with(&start), "{refused:?}");
    }
}

#[test]
fn the_log_shows_what_counts() {
    let text = format!(
        "admin.address = \"127.0.0.1:1\"\n{LEAST}dead_letter.on_failure = 'park'\n\
         dead_letter.breaker = {{ run = 9, ratio = 0.25 }}\n"
    );
    let effective = load_with(&text, &[]).expect("valid").effective();
    let all: Vec<String> = effective
        .into_iter()
        .map(|(of, is)| of + " " + &is)
        .collect();
    let all = all.join("\n");
    for part in [
        "admin address=127.0.0.1:1",
        "dead_letter.on_failure=park; dead_letter.tries=5; dead_letter.breaker.run=9; \
         dead_letter.breaker.ratio=0.25; dead_letter.breaker.window=100",
    ] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
}
