//! The random inputs.

use std::time::Duration;

use ackgate_lane::{
    Backoff, Breaker, OnReject, OnUnwritten, Order, Policy, Ratio, Verdict, Window,
};
use proptest::{collection::vec, option, prelude::*};

#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// New records at the end of the log, some left out.
    Append {
        count: u64,
        gaps: u8,
    },
    /// Up to `count` records are fetched, as far as there is room.
    Fetch {
        count: u64,
    },
    /// As `Fetch`, and of what comes every record whose bit is set is not to be handed out.
    Sift {
        count: u64,
        which: u16,
        how: How,
    },
    /// The first `count` of what is ready have become too old.
    Expire {
        count: u64,
        how: How,
    },
    /// Records below the position are passed in again (without order).
    FetchAgain {
        back: u64,
        count: u64,
    },
    /// Up to `count` of what is ready goes to a subscriber.
    Dispatch {
        to: u64,
        count: u64,
        deadline: u64,
    },
    /// One of the dispatched runs has been sent.
    Sent {
        index: usize,
    },
    /// A verdict (or an extension, if `None`) on offsets around the floor.
    Say {
        from: u64,
        at: Spot,
        length: u64,
        delivery: Number,
        verdict: Option<Verdict>,
        by: u64,
    },
    Lost {
        subscriber: u64,
    },
    Closed {
        subscriber: u64,
    },
    /// A subscriber comes back, the one that has or had what lies at `also`, if there is
    /// such: what it has is named where its bit is set, some of it by the number of
    /// another delivery, and so is what lies at `also`.
    Resumed {
        subscriber: u64,
        named: u16,
        wrong: u16,
        also: Option<Spot>,
    },
    /// The gateway may have lost its partitions: everything out is void.
    Fenced,
    /// A subscriber takes nothing for now.
    Paused {
        subscriber: u64,
    },
    Oversize,
    /// Time passes, with a timeout whenever the lane wants one.
    Wait {
        ms: u64,
    },
    /// Time passes and the timeout comes late.
    Oversleep {
        ms: u64,
    },
    /// The dead letter is stored, or not; `None`: it was not tried.
    Letter {
        index: usize,
        stored: Option<bool>,
    },
    /// An operator closes the breaker.
    Reset,
    Commit {
        done: bool,
    },
    Seek {
        done: bool,
    },
    /// A record disappears from the log: one that is to be read again, if there is any.
    Vanish {
        index: usize,
    },
    /// The lane is told how far the log holds nothing more.
    End,
    /// Retention takes this much that was not read yet.
    Gone {
        count: u64,
    },
    /// The lane is revoked, with this much time.
    Drain {
        ms: u64,
    },
}

/// A place relative to what is going on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spot {
    /// The n-th record that is out, if any.
    Out(usize),
    /// The n-th unsettled record that was out before, and by whom.
    Again(usize),
    /// This far above, or below, the floor.
    Floor(i64),
}

/// Why a record is not to be handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Filtered,
    Unfit,
    Expired,
    ExpiredDropped,
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        2 => Just(How::Filtered),
        1 => Just(How::Unfit),
        1 => Just(How::Expired),
        1 => Just(How::ExpiredDropped),
    ]
}

/// Which delivery a verdict names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Any,
    Current,
    Exactly(u32),
}

fn spot() -> impl Strategy<Value = Spot> {
    prop_oneof![
        4 => (0..20_usize).prop_map(Spot::Out),
        2 => (0..20_usize).prop_map(Spot::Again),
        2 => (-6..14_i64).prop_map(Spot::Floor),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let delay = option::weighted(0.4, (0..1500_u64).prop_map(Duration::from_millis));
    prop_oneof![
        6 => Just(Verdict::Acked),
        1 => Just(Verdict::Rejected),
        3 => delay.prop_map(|retry_after| Verdict::Failed { retry_after }),
        1 => Just(Verdict::Released),
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        3 => Just(Number::Any),
        3 => Just(Number::Current),
        1 => (1..4_u32).prop_map(Number::Exactly),
    ]
}

fn say() -> impl Strategy<Value = Command> {
    (
        1..4_u64,
        spot(),
        1..8_u64,
        number(),
        option::weighted(0.9, verdict()),
        0..3000_u64,
    )
        .prop_map(|(from, at, length, delivery, verdict, by)| Command::Say {
            from,
            at,
            length,
            delivery,
            verdict,
            by,
        })
}

fn resumed() -> impl Strategy<Value = Command> {
    let wrong = prop_oneof![3 => Just(0), 1 => any::<u16>()];
    let also = option::weighted(0.8, spot());
    (1..4_u64, any::<u16>(), wrong, also).prop_map(|(subscriber, named, wrong, also)| {
        Command::Resumed {
            subscriber,
            named,
            wrong,
            also,
        }
    })
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        2 => (1..12_u64, prop_oneof![Just(0), any::<u8>()])
            .prop_map(|(count, gaps)| Command::Append { count, gaps }),
        5 => (1..12_u64).prop_map(|count| Command::Fetch { count }),
        2 => (1..12_u64, any::<u16>(), how())
            .prop_map(|(count, which, how)| Command::Sift { count, which, how }),
        1 => (1..4_u64, how()).prop_map(|(count, how)| Command::Expire { count, how }),
        1 => (1..6_u64, 1..6_u64).prop_map(|(back, count)| Command::FetchAgain { back, count }),
        8 => (1..4_u64, 1..8_u64, 100..1500_u64)
            .prop_map(|(to, count, deadline)| Command::Dispatch { to, count, deadline }),
        6 => (0..6_usize).prop_map(|index| Command::Sent { index }),
        16 => say(),
        1 => (1..4_u64).prop_map(|subscriber| Command::Lost { subscriber }),
        1 => (1..4_u64).prop_map(|subscriber| Command::Closed { subscriber }),
        1 => (1..4_u64).prop_map(|subscriber| Command::Paused { subscriber }),
        2 => resumed(),
        1 => Just(Command::Fenced),
        1 => Just(Command::Oversize),
        5 => (1..800_u64).prop_map(|ms| Command::Wait { ms }),
        1 => (1..3000_u64).prop_map(|ms| Command::Oversleep { ms }),
        5 => (0..3_usize, option::weighted(0.9, prop::bool::weighted(0.5)))
            .prop_map(|(index, stored)| Command::Letter { index, stored }),
        1 => Just(Command::Reset),
        3 => prop::bool::weighted(0.7).prop_map(|done| Command::Commit { done }),
        4 => prop::bool::weighted(0.8).prop_map(|done| Command::Seek { done }),
        2 => (0..8_usize).prop_map(|index| Command::Vanish { index }),
        1 => Just(Command::End),
        1 => (1..6_u64).prop_map(|count| Command::Gone { count }),
        1 => (0..1500_u64).prop_map(|ms| Command::Drain { ms }),
    ]
}

pub(crate) fn commands() -> impl Strategy<Value = Vec<Command>> {
    vec(command(), 1..150)
}

pub(crate) fn policies() -> impl Strategy<Value = Policy> {
    let order = prop_oneof![
        2 => Just(Order::None),
        3 => prop_oneof![Just(50_u16), Just(250), Just(1000)]
            .prop_map(|share| Order::Key { share }),
        2 => Just(Order::Lane { skip_acked: false }),
        2 => Just(Order::Lane { skip_acked: true })
    ];
    let on_reject = prop_oneof![6 => Just(OnReject::DeadLetter), 1 => Just(OnReject::Drop), 1 => Just(OnReject::Hold)];
    let tries = 1..3_u32;
    let on_unwritten = prop_oneof![
        3 => Just(OnUnwritten::Block),
        2 => tries.clone().prop_map(|tries| OnUnwritten::Park { tries }),
        2 => tries.prop_map(|tries| OnUnwritten::Discard { tries }),
    ];
    let ratio = (300..=1000_u16, 2..8_u32).prop_map(|(part, of)| Ratio { part, of });
    let breaker = (
        option::weighted(0.2, 1..6_u32),
        option::weighted(0.15, ratio),
    )
        .prop_map(|(run, ratio)| Breaker { run, ratio });
    (
        order,
        on_reject,
        (on_unwritten, breaker),
        1..5_u32,
        1..8_u32,
        3..24_u32,
        8..48_u64,
        2..40_u64,
        prop::bool::weighted(0.6),
    )
        .prop_map(
            |(
                order,
                on_reject,
                (on_unwritten, breaker),
                max_attempts,
                max_deliveries,
                records,
                span,
                commit_settlements,
                exactly_once,
            )| {
                // Without jitter the reference can foretell every moment.
                let none = Backoff {
                    initial: Duration::ZERO,
                    factor: 1.0,
                    max: Duration::ZERO,
                };
                Policy {
                    order,
                    ack_deadline: Duration::from_secs(1),
                    max_attempts,
                    max_deliveries,
                    backoff: none,
                    on_reject,
                    dead_letter_backoff: none,
                    on_unwritten,
                    breaker,
                    window: Window { records, span },
                    commit_interval: Duration::from_millis(500),
                    commit_settlements,
                    // What is written with commits is never set aside or discarded.
                    exactly_once: exactly_once && on_unwritten == OnUnwritten::Block,
                }
            },
        )
}
