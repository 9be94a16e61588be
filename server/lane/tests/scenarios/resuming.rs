//! A subscriber that comes back after its stream broke and names what it works on.

use ackgate_lane::{
    Order, Policy,
    ResumeResult::{self, Kept, Lost, Settled},
    Return, Subscriber, Target, Verdict, VerdictResult,
};

use crate::support::{A, B, Bench, FAILED, in_lane_order, policy, range, returned, seek};

/// First and last offset of a run, and the delivery that is meant.
type Named = (u64, u64, Option<u32>);

fn resumed(bench: &mut Bench, who: Subscriber, named: &[Named]) -> Vec<(u64, u64, ResumeResult)> {
    let named: Vec<Target> = named
        .iter()
        .map(|&(first, last, delivery)| Target {
            range: range(first, last),
            delivery,
        })
        .collect();
    let mut answers = Vec::new();
    let now = bench.now;
    bench.lane.handle_resumed(now, who, &named, &mut answers);
    answers
        .iter()
        .map(|answer| {
            let run = answer.range;
            (run.first().get(), run.last().get(), answer.result)
        })
        .collect()
}

#[test]
fn l10_what_is_named_is_kept_and_what_is_not_is_lost_at_once() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).effects();
    let answers = resumed(&mut bench, A, &[(2, 3, None), (6, 6, Some(1))]);
    assert_eq!(answers, [(2, 3, Kept), (6, 6, Kept)]);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 1, Return::Lost),
            returned(A, 4, 5, Return::Lost),
            returned(A, 7, 9, Return::Lost),
        ]
    );
    let ready = bench.ready().expect("ready");
    assert_eq!(
        (ready.attempt, ready.delivery),
        (1, 2),
        "no attempt is used"
    );
    bench.applied(A, 2, 3, Verdict::Acked);
    bench.applied(A, 6, 6, Verdict::Acked);
}

#[test]
fn named_run_is_answered_in_parts_where_it_differs() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 4).deliver(B, 5, 7);
    bench.ack(A, 0, 1).ack(A, 3, 3);
    let answers = resumed(&mut bench, A, &[(0, 20, None)]);
    assert_eq!(
        answers,
        [
            (0, 1, Settled),
            (2, 2, Kept),
            (3, 3, Settled),
            (4, 4, Kept),
            (5, 9, Lost),
        ]
    );
    bench.ack(B, 5, 7);
}

#[test]
fn l4_manifest_that_lies_takes_nothing_from_others() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .deliver(B, 5, 9)
        .effects();
    let everything = [(0, u64::MAX - 1, None), (7, 7, Some(9)), (3, 8, None)];
    let answers = resumed(&mut bench, A, &everything);
    assert_eq!(answers, [(0, 4, Kept), (5, 9, Lost)]);
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.result(A, 5, FAILED), VerdictResult::Unknown);
    bench.ack(B, 5, 9);
}

#[test]
fn l4_delivery_of_another_number_is_lost_and_so_is_the_one_that_is_out() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .lost(A)
        .deliver(A, 0, 0);
    bench.effects();
    assert_eq!(resumed(&mut bench, A, &[(0, 0, Some(1))]), [(0, 0, Lost)]);
    assert_eq!(bench.effects(), [returned(A, 0, 0, Return::Lost)]);
}

#[test]
fn deadline_goes_on_while_its_subscriber_is_away() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 1).deliver(A, 0, 1).effects();
    bench.until(30_000);
    assert_eq!(bench.effects(), [returned(A, 0, 1, Return::Expired)]);
    // Not handed out again yet: a late verdict counts.
    assert_eq!(resumed(&mut bench, A, &[(0, 1, None)]), [(0, 1, Kept)]);
    bench.until(60_000).deliver(B, 0, 1);
    assert_eq!(resumed(&mut bench, A, &[(0, 1, None)]), [(0, 1, Lost)]);
}

#[test]
fn kept_delivery_whose_hand_over_was_never_told_has_a_deadline_from_then_on() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 1).dispatch(A, 0, 1).effects();
    bench.until(5_000);
    assert_eq!(resumed(&mut bench, A, &[(0, 1, None)]), [(0, 1, Kept)]);
    bench.until(34_999);
    assert_eq!(bench.effects(), []);
    bench.until(35_000);
    assert_eq!(bench.effects(), [returned(A, 0, 1, Return::Expired)]);
}

#[test]
fn l9_what_is_void_by_a_loss_below_it_is_not_kept() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 9).deliver(A, 0, 9).effects();
    let answers = resumed(&mut bench, A, &[(0, 3, None), (6, 9, None)]);
    assert_eq!(answers, [(0, 3, Kept), (6, 9, Lost)]);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 4, 5, Return::Lost),
            returned(A, 6, 9, Return::Rewound)
        ]
    );
    let policy = Policy {
        order: Order::Lane { skip_acked: true },
        ..policy()
    };
    let mut bench = Bench::new(policy);
    bench.fetched(0, 9).deliver(A, 0, 9);
    assert_eq!(resumed(&mut bench, A, &[(0, 9, None)]), [(0, 9, Kept)]);
}

#[test]
fn naming_nothing_loses_everything_and_the_lane_goes_on() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 3).deliver(A, 0, 3).ack(A, 0, 0);
    bench.effects();
    assert_eq!(resumed(&mut bench, A, &[]), []);
    let effects = bench.effects();
    assert_eq!(effects[0], returned(A, 1, 3, Return::Lost));
    assert_eq!(effects.last(), Some(&seek(1)), "{effects:?}");
}

#[test]
fn nothing_is_kept_in_a_lane_that_has_gone() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 4).deliver(A, 0, 4).drain(100);
    assert_eq!(resumed(&mut bench, A, &[(0, 1, None)]), [(0, 1, Kept)]);
    bench.until(100);
    assert_eq!(resumed(&mut bench, A, &[(0, 1, None)]), [(0, 1, Lost)]);
}

#[test]
fn offset_that_was_never_received_is_lost() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 4).deliver(A, 0, 4);
    let answers = resumed(&mut bench, A, &[(0, 4, None), (900, 999, None)]);
    assert_eq!(answers, [(0, 4, Kept), (900, 999, Lost)]);
}
