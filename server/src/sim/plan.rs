//! [`Plan`]: what a seed decides before its run begins.

use std::time::Duration;

use ackgate_lane::{Backoff, OnReject, OnUnwritten, Order, Policy, Window};

use super::dice::Dice;
use crate::config::{Batch, Copying, DeadLetter, Delivery, Intake, Lease, StartAt, Subscription};

/// Name of the subscription.
pub(super) const SUBSCRIPTION: &str = "orders";

/// The topic that is read.
pub(super) const TOPIC: &str = "orders";

/// What can be asked of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Competing, no order.
    Free,
    /// Competing, in order of keys.
    Keyed,
    /// Competing, in lane order.
    Ordered,
}

/// The setting of one run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) partitions: i32,
    pub(super) gateways: u64,
    /// Subscribers at a time.
    pub(super) clients: u64,
    /// Records in each partition at the beginning.
    pub(super) records: u64,
    /// All records are large, so that memory runs short.
    pub(super) bulky: bool,
    /// How long things go wrong.
    pub(super) chaos: Duration,
    /// How bad the subscribers are, in percent.
    pub(super) malice: u32,
    /// How often the world does harm, in percent of its chances.
    pub(super) storm: u32,
    /// Silence after which the group goes on without a member.
    pub(super) session_timeout: Duration,
    /// How long a member waits for the driver in a revoke.
    pub(super) revoke_wait: Duration,
    pub(super) eager: bool,
    pub(super) memory: u64,
    /// Longest metadata that the broker takes with a commit.
    pub(super) metadata: usize,
    pub(super) ping: Duration,
    /// Subscribers without a stream, in percent.
    pub(super) pulls: u32,
    pub(super) subscription: Subscription,
}

impl Plan {
    /// The plan of these dice.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let kind = match dice.weighted(&[40, 30, 30]) {
            0 => Kind::Free,
            1 => Kind::Keyed,
            _ => Kind::Ordered,
        };
        let revoke_drain = dice.ms(0, 5000);
        let late = dice.chance(15);
        let quiet = dice.chance(20);
        let exactly_once = dice.chance(40);
        Self {
            kind,
            partitions: i32::try_from(dice.between(1, 4)).expect("few"),
            gateways: dice.between(1, 3),
            clients: dice.between(1, 5),
            records: dice.between(0, 40),
            bulky: dice.chance(10),
            chaos: dice.ms(5_000, 60_000),
            malice: if dice.chance(30) {
                0
            } else {
                dice.count(5, 60)
            },
            storm: if quiet { 0 } else { dice.count(10, 100) },
            session_timeout: dice.ms(3_000, 15_000),
            revoke_wait: if late {
                revoke_drain / 2
            } else {
                revoke_drain + Duration::from_secs(3)
            },
            eager: dice.chance(40),
            memory: dice.pick(&[1 << 20, 4 << 20, 1 << 30]),
            metadata: dice.pick(&[4096, 4096, 4096, 200, 20]),
            ping: dice.ms(5_000, 30_000),
            pulls: dice.fork().pick(&[0, 0, 30, 70]),
            subscription: subscription(dice, kind, revoke_drain, exactly_once),
        }
    }
}

impl Plan {
    /// Whether records of a lane may not overtake each other.
    pub(super) fn is_ordered(&self) -> bool {
        self.kind == Kind::Ordered
    }

    /// Whether dead letters are stored with the commits that settle their records.
    pub(super) fn is_atomic(&self) -> bool {
        self.subscription.policy.exactly_once
    }

    /// Whether rejected and exhausted records settle without a dead letter.
    pub(super) fn drops(&self) -> bool {
        self.subscription.policy.on_reject == OnReject::Drop
    }
}

fn subscription(
    dice: &mut Dice,
    kind: Kind,
    revoke_drain: Duration,
    exactly_once: bool,
) -> Subscription {
    let duration = dice.ms(1000, 30_000);
    let lease = Lease {
        duration,
        beat: duration / 3,
    };
    let on_reject = if dice.chance(85) {
        OnReject::DeadLetter
    } else {
        OnReject::Drop
    };
    Subscription {
        name: SUBSCRIPTION.to_owned(),
        cluster: "main".to_owned(),
        topics: vec![TOPIC.to_owned()],
        group: "billing".to_owned(),
        start: if dice.chance(85) {
            StartAt::Earliest
        } else {
            StartAt::Latest
        },
        delivery: Delivery::Competing,
        policy: Policy {
            exactly_once: exactly_once && on_reject == OnReject::DeadLetter,
            ..parking(kind, exactly_once, policy(dice, kind, on_reject))
        },
        window_bytes: 1 << 20,
        linger: dice.ms(500, 20_000),
        revoke_drain,
        intake: Intake::default(),
        batch: Batch {
            max_records: dice.pick(&[1, 5, 1024]),
            max_bytes: 256 << 10,
            linger: Duration::from_millis(dice.pick(&[0, 0, 20, 300])),
            min_fill: 1.0,
        },
        resume_grace: dice.ms(0, 30_000),
        lease,
        map_bytes: dice.pick(&[0, 96, 3072, 3072, 3072]),
        cohort_grace: Duration::from_millis(dice.pick(&[0, 0, 0, 2000])),
        min_subscribers: dice.pick(&[1, 1, 1, 2]),
        dead_letter: (on_reject == OnReject::DeadLetter).then(|| DeadLetter {
            retry_topic: None,
            topic: "orders.dead-letter".to_owned(),
            exactly_once: None,
            copying: Copying::default(),
            producer_properties: Vec::new(),
        }),
        consumer_properties: Vec::new(),
    }
}

/// In half of the runs where it may be, dead letters that cannot be written are set
/// aside.
fn parking(kind: Kind, exactly_once: bool, policy: Policy) -> Policy {
    let parks = kind != Kind::Ordered && !exactly_once && policy.max_attempts.is_multiple_of(2);
    let tries = 1 + policy.max_attempts / 2;
    Policy {
        on_unwritten: if parks {
            OnUnwritten::Park { tries }
        } else {
            OnUnwritten::Block
        },
        ..policy
    }
}

fn policy(dice: &mut Dice, kind: Kind, on_reject: OnReject) -> Policy {
    let backoff = |dice: &mut Dice| Backoff {
        initial: dice.ms(1, 1000),
        factor: 2.0,
        max: dice.ms(1000, 5000),
    };
    let skip_acked = dice.chance(50);
    let share = dice.pick(&[50, 250, 1000]);
    Policy {
        order: match kind {
            Kind::Free => Order::None,
            Kind::Keyed => Order::Key { share },
            Kind::Ordered => Order::Lane { skip_acked },
        },
        ack_deadline: dice.ms(500, 8000),
        max_attempts: dice.count(1, 6),
        max_deliveries: dice.count(1, 20),
        backoff: backoff(dice),
        on_reject,
        dead_letter_backoff: backoff(dice),
        on_unwritten: OnUnwritten::Block,
        breaker: ackgate_lane::Breaker::default(),
        window: Window {
            records: dice.count(1, 60),
            span: dice.between(10, 500),
        },
        commit_interval: dice.ms(50, 2000),
        commit_settlements: dice.between(1, 50),
        exactly_once: false,
    }
}
