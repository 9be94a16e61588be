//! [`History`]: what took place in a run, in order, as seen from outside the
//! gateways. The oracle knows nothing else.

use std::{
    fmt::Debug,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A verdict as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Word {
    pub(super) lane: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) delivery: Option<u32>,
    pub(super) saying: Saying,
}

/// What a subscriber says about records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Saying {
    Acked,
    Rejected,
    /// Not before this long, in milliseconds.
    Failed(Option<u64>),
    Released,
    /// One of several ways in which a verdict is none.
    Nonsense(u32),
    /// Not a verdict: this long from now, in milliseconds.
    Extend(u64),
}

/// The answer to a part of a message of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reply {
    pub(super) lane: u64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) result: Told,
}

/// [`ackgate_proto::v1::VerdictResult`], which has no order and no short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Duplicate,
    Conflict,
    Stale,
    Fenced,
    Unknown,
    Expired,
    Invalid,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    /// The subscriber let go of the stream without a word.
    Dropped,
    /// Its gateway died.
    GatewayDied,
    /// The gateway ended it; with its reason, if it was not well.
    Told(Option<String>),
}

/// A member of the consumer group gets or loses a partition, or a record does
/// something: all that can be seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    // The log.
    Appended {
        partition: i32,
        offset: u64,
        key: Option<u64>,
    },
    /// Retention deleted what lies below.
    Trimmed {
        partition: i32,
        start: u64,
    },
    /// Another tool moved the group.
    Reset {
        partition: i32,
        position: u64,
    },
    // The group.
    Joined {
        member: u64,
        gateway: u64,
    },
    Left {
        member: u64,
    },
    /// The group goes on without it and it does not know yet.
    Fenced {
        member: u64,
    },
    Assigned {
        gateway: u64,
        lane: u64,
        partition: i32,
        position: u64,
        committed: bool,
        /// What the committed metadata says is settled: first, last.
        settled: Vec<(u64, u64)>,
        /// And how often others were tried: first, last, attempts, deliveries.
        tried: Vec<(u64, u64, u32, u32)>,
    },
    Revoking {
        gateway: u64,
        lane: u64,
        lost: bool,
    },
    Revoked {
        gateway: u64,
        lane: u64,
    },
    Fetched {
        gateway: u64,
        lane: u64,
        partition: i32,
        first: u64,
        last: u64,
        /// Memory of the gateway in use.
        used: u64,
    },
    /// The position took effect at the broker; `told`: the gateway was told so.
    Committed {
        gateway: u64,
        lane: u64,
        partition: i32,
        position: u64,
        /// What its metadata says is settled: first, last.
        settled: Vec<(u64, u64)>,
        told: bool,
    },
    // Dead letters.
    LetterStored {
        gateway: u64,
        partition: i32,
        offset: u64,
        cause: String,
        attempts: u32,
        deliveries: u32,
        intact: bool,
    },
    LetterAnswered {
        gateway: u64,
        partition: i32,
        offset: u64,
        stored: bool,
    },
    // Gateways.
    Started {
        gateway: u64,
    },
    Stopping {
        gateway: u64,
    },
    Stopped {
        gateway: u64,
        memory: u64,
    },
    Died {
        gateway: u64,
    },
    // Sessions.
    Opening {
        session: u64,
        gateway: u64,
        credit: (u32, u64),
        ack_deadline: u64,
        /// 1: once applied. 2: once durable.
        confirm: u32,
        /// The largest message that it takes; 0: as is usual.
        accepts: u64,
    },
    Opened {
        session: u64,
        subscriber: String,
    },
    Credit {
        session: u64,
        credit: (u32, u64),
    },
    /// A session without a stream begins to take so many records and bytes, or one.
    Draw {
        session: u64,
        most: (u32, u64),
    },
    /// And takes no more, until it begins again.
    Drawn {
        session: u64,
    },
    Delivered {
        session: u64,
        lane: u64,
        epoch: u64,
        partition: i32,
        offset: u64,
        attempt: u32,
        delivery: u32,
        bytes: u64,
        /// When it was handed over at the earliest, in milliseconds.
        since: u64,
        /// The session has never let a message wait.
        prompt: bool,
        intact: bool,
    },
    Said {
        session: u64,
        sequence: u64,
        words: Vec<Word>,
        /// The session has never let a message wait.
        prompt: bool,
    },
    Answered {
        session: u64,
        sequence: u64,
        replies: Vec<Reply>,
    },
    LaneNews {
        session: u64,
        lane: u64,
        kind: String,
        range: Option<(i64, i64)>,
    },
    /// Nothing more is said; answers are still read.
    Goodbye {
        session: u64,
        polite: bool,
    },
    Ended {
        session: u64,
        how: Ending,
    },
    // The run.
    /// What the weather does now, for the reader of a trace.
    Chaos(String),
    /// From here on everything works.
    Calm,
    /// Everything has been committed; or not, in words.
    Finished(Option<String>),
}

/// One entry: when, in milliseconds, and what.
pub(super) type Entry = (u64, Event);

/// Grows while a run goes on. Clones are one.
#[derive(Clone, Debug)]
pub(super) struct History {
    entries: Arc<Mutex<Vec<Entry>>>,
    origin: Instant,
    aloud: bool,
}

impl History {
    /// An empty one that begins now; `aloud` prints what takes place.
    pub(super) fn new(aloud: bool) -> Self {
        Self {
            entries: Arc::default(),
            origin: Instant::now(),
            aloud,
        }
    }

    /// Milliseconds since the beginning.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes down what takes place now.
    pub(super) fn push(&self, event: Event) {
        let now = self.now();
        let mut entries = self.entries.lock();
        if self.aloud {
            eprintln!("{}", line(entries.len(), now, &event));
        }
        entries.push((now, event));
    }

    /// Everything so far.
    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock())
    }
}

/// One line of a trace.
pub(super) fn line(index: usize, at: u64, event: &impl Debug) -> String {
    format!("#{index:<5} {:>8}.{:03} s  {event:?}", at / 1000, at % 1000)
}

/// The same for the same history, on every machine.
pub(super) fn hash(entries: &[Entry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    hasher.finish()
}
