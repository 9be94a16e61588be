//! What a subscriber may ask of its subscription: options, and how batches are filled.

use std::time::{Duration, SystemTime};

use ackgate_proto::v1;

use crate::options::wire_duration;

/// How records are spread over subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Each record goes to one of them.
    Competing,
    /// Each record goes to every one that is attached.
    Broadcast,
}

/// How records may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Freely: only a failed record itself waits.
    None,
    /// No record overtakes an earlier one with the same key.
    Key,
    /// Nothing of a partition overtakes it.
    Lane,
}

impl Order {
    /// As the gateway says it; `None`: it does not.
    pub(crate) const fn of(wire: v1::Order) -> Option<Self> {
        match wire {
            v1::Order::Unspecified => None,
            v1::Order::None => Some(Self::None),
            v1::Order::Key => Some(Self::Key),
            v1::Order::Lane => Some(Self::Lane),
        }
    }
}

/// What happens to rejected and exhausted records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReject {
    /// They are written to the dead-letter topic.
    DeadLetter,
    /// They are dropped, counted and logged.
    Drop,
    /// The lane holds until an operator acts.
    Hold,
}

/// Where a group without a committed offset begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record.
    Earliest,
    /// At the end.
    Latest,
    /// At the first record at or after this time.
    At(SystemTime),
    /// Nowhere: the lane is held until an operator commits an offset.
    Fail,
}

/// Options of a subscription, with the ranges that the gateway's configuration has for
/// them. What is not set asks for nothing.
///
/// They shape an [ad hoc](crate::Subscriber::ad_hoc) subscription that is opened for the
/// first time. Of one that runs already, ad hoc or named, they are what the subscriber
/// relies on: the gateway refuses the stream with reason `OPTIONS_CONTRADICT` if it runs
/// with anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "give it to `Builder::options`"]
pub struct SubscriptionOptions {
    delivery: Option<DeliveryMode>,
    order: Option<Order>,
    start: Option<Start>,
    ack_deadline: Option<Duration>,
    max_attempts: Option<u32>,
    max_deliveries: Option<u32>,
    on_reject: Option<OnReject>,
    dead_letter_topic: Option<String>,
    filter: Option<String>,
    min_age: Option<Duration>,
}

impl SubscriptionOptions {
    /// Asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks how records are spread over subscribers.
    pub fn delivery(mut self, delivery: DeliveryMode) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// Asks how records may overtake each other.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Asks where a group without a committed offset begins.
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// Asks for the subscription's own time for a verdict;
    /// [`Builder::ack_deadline`](crate::Builder::ack_deadline) is this subscriber's.
    pub fn ack_deadline(mut self, deadline: Duration) -> Self {
        self.ack_deadline = Some(deadline);
        self
    }

    /// Asks for the failures after which a record is exhausted.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Asks for the hand-overs after which a record is exhausted.
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.max_deliveries = Some(deliveries);
        self
    }

    /// Asks what happens to rejected and exhausted records.
    pub fn on_reject(mut self, on_reject: OnReject) -> Self {
        self.on_reject = Some(on_reject);
        self
    }

    /// Asks for the topic of dead letters, on the same cluster.
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// Asks what is read at all, in the words of the gateway's configuration.
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Asks for the age below which records are held back.
    pub fn min_age(mut self, age: Duration) -> Self {
        self.min_age = Some(age);
        self
    }

    pub(crate) fn wire(&self) -> v1::SubscriptionOptions {
        let delivery = match self.delivery {
            None => v1::Delivery::Unspecified,
            Some(DeliveryMode::Competing) => v1::Delivery::Competing,
            Some(DeliveryMode::Broadcast) => v1::Delivery::Broadcast,
        };
        let order = match self.order {
            None => v1::Order::Unspecified,
            Some(Order::None) => v1::Order::None,
            Some(Order::Key) => v1::Order::Key,
            Some(Order::Lane) => v1::Order::Lane,
        };
        let on_reject = match self.on_reject {
            None => v1::OnReject::Unspecified,
            Some(OnReject::DeadLetter) => v1::OnReject::DeadLetter,
            Some(OnReject::Drop) => v1::OnReject::Drop,
            Some(OnReject::Hold) => v1::OnReject::Hold,
        };
        v1::SubscriptionOptions {
            delivery: delivery.into(),
            order: order.into(),
            start: self.start.map(start),
            ack_deadline: self.ack_deadline.map(wire_duration),
            max_attempts: self.max_attempts,
            max_deliveries: self.max_deliveries,
            on_reject: on_reject.into(),
            dead_letter_topic: self.dead_letter_topic.clone(),
            filter: self.filter.clone(),
            // Unlike other times this one may be days.
            min_age: self.min_age.and_then(|age| age.try_into().ok()),
        }
    }
}

fn start(start: Start) -> v1::Start {
    use v1::start::At;
    let at = match start {
        Start::Earliest => At::Earliest(v1::StartEarliest {}),
        Start::Latest => At::Latest(v1::StartLatest {}),
        Start::At(time) => At::Timestamp(time.into()),
        Start::Fail => At::Fail(v1::StartFail {}),
    };
    v1::Start { at: Some(at) }
}

/// What batches wait for; what is not set is as the subscription has it.
///
/// A batch is handed out when it is full, when its first record has waited for the
/// linger, or when nothing can make it fuller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[must_use = "give it to `Builder::batches`"]
pub struct Batches {
    max_records: Option<u32>,
    max_bytes: Option<u64>,
    linger: Option<Duration>,
    min_fill: Option<f64>,
}

impl Batches {
    /// Asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for at most this many records in one batch, 1 to 10,000.
    pub fn max_records(mut self, records: u32) -> Self {
        self.max_records = Some(records);
        self
    }

    /// Asks for at most this many bytes of records in one batch, 1 KiB to 16 MiB; a
    /// larger record goes alone.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Asks how long the first record of a batch may wait for others, at most 1 min.
    /// Zero: not at all.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Asks for the part of either limit, 0.01 to 1, at which a batch counts as full.
    pub fn min_fill(mut self, part: f64) -> Self {
        self.min_fill = Some(part);
        self
    }

    pub(crate) fn problem(&self) -> Option<&'static str> {
        let holds = self.max_records.is_none_or(|it| (1..=10_000).contains(&it))
            && self
                .max_bytes
                .is_none_or(|it| (1 << 10..=16 << 20).contains(&it))
            && self.linger.is_none_or(|it| it <= Duration::from_secs(60))
            && self.min_fill.is_none_or(|it| (0.01..=1.0).contains(&it));
        (!holds).then_some(
            "1 to 10,000 records, 1 KiB to 16 MiB, a linger of at most 1 min, a fill of 0.01 to 1",
        )
    }

    pub(crate) fn wire(self) -> v1::BatchOptions {
        v1::BatchOptions {
            max_records: self.max_records.unwrap_or_default(),
            max_bytes: self.max_bytes.unwrap_or_default(),
            linger: self.linger.map(wire_duration),
            min_fill: self.min_fill.unwrap_or_default(),
        }
    }
}
