//! [`Manner`]: how a subscriber behaves, drawn when its session begins.

use std::time::Duration;

use super::dice::Dice;

/// How a session ends if nothing else ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Close,
    HalfClose,
    Reset,
    Drop,
}

/// What becomes of a record, or of a run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    AckNow,
    AckLater,
    Fail,
    FailWithDelay,
    Reject,
    Release,
    Extend,
    Late,
    Never,
}

const FATES: [Fate; 9] = [
    Fate::AckNow,
    Fate::AckLater,
    Fate::Fail,
    Fate::FailWithDelay,
    Fate::Reject,
    Fate::Release,
    Fate::Extend,
    Fate::Late,
    Fate::Never,
];

/// The shortest pause before a call, in milliseconds: callers are not to make a driver spin.
pub(super) const PAUSE: u64 = 50;

/// How a subscriber without a stream draws records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulls {
    /// The most of one call: records, bytes.
    pub(super) most: (u32, u64),
    /// How long a call waits for a first record.
    pub(super) wait: Duration,
    /// How long it waits for others.
    pub(super) linger: Duration,
    /// The longest pause before a call, in milliseconds: [`PAUSE`] or more.
    pub(super) pause: u64,
    /// Calls that their caller leaves before the answer, in percent.
    pub(super) goes: u32,
    /// Answers that wait for room on the way, in percent.
    pub(super) slow: u32,
}

impl Pulls {
    fn draw(dice: &mut Dice) -> Self {
        let records = dice.pick(&[1, 1, 2, 5, 20, 100]);
        let bytes = dice.pick(&[1, 1000, 100_000, 1 << 20]);
        // Else what is handed out is read at that moment.
        let waits = dice.chance(50);
        let linger = Duration::from_millis(dice.pick(&[0, 20, 300, 3000]));
        let (goes, slow) = (dice.pick(&[0, 10, 50]), dice.pick(&[0, 5, 20]));
        Self {
            most: (records, bytes),
            wait: Duration::from_millis(dice.pick(&[0, 500, 5000, 60_000])),
            linger: if waits { linger } else { Duration::ZERO },
            pause: dice.pick(&[PAUSE, 200, 3000]),
            goes: if waits { goes } else { 0 },
            slow: if waits { slow } else { 0 },
        }
    }

    /// Whether what is handed out is always read at that moment.
    pub(super) fn is_prompt(&self) -> bool {
        self.linger.is_zero() && self.goes == 0 && self.slow == 0
    }
}

/// One subscriber's ways.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    /// It has no stream.
    pub(super) pulls: Option<Pulls>,
    pub(super) credit: (u32, u64),
    pub(super) confirm: u32,
    pub(super) ack_deadline: Option<Duration>,
    pub(super) max_message_bytes: u64,
    weights: [u32; 9],
    /// Records of a batch share a fate, in percent.
    pub(super) together: u32,
    /// Verdicts name the delivery, in percent.
    pub(super) numbers: u32,
    /// Verdicts for a run go as one, in percent.
    pub(super) ranges: u32,
    /// A batch is followed by a lie, in percent.
    pub(super) lies: u32,
    /// A batch is followed by a new credit, in percent.
    pub(super) credits: u32,
    /// A batch is followed by a pause in which nothing is read, in percent.
    pub(super) pauses: u32,
    /// It gives signs of life.
    pub(super) beats: bool,
    pub(super) life: Duration,
    pub(super) leaving: Leaving,
}

impl Manner {
    /// Acks everything, stays for good.
    pub(super) fn patient(dice: &mut Dice) -> Self {
        Self {
            pulls: None,
            credit: (dice.count(1, 200), 1 << 20),
            confirm: 1,
            ack_deadline: Some(Duration::from_secs(60)),
            max_message_bytes: 0,
            weights: [100, 30, 0, 0, 0, 0, 0, 0, 0],
            together: 90,
            numbers: 50,
            ranges: 100,
            lies: 0,
            credits: 0,
            pauses: 0,
            beats: true,
            life: Duration::from_secs(1_000_000),
            leaving: Leaving::Close,
        }
    }

    /// One of a population of which `malice` percent is bad.
    pub(super) fn draw(dice: &mut Dice, malice: u32) -> Self {
        let bad = dice.chance(malice);
        let mut vice = |chance: u32, most: u32| {
            if dice.chance(chance) {
                dice.count(1, most)
            } else {
                0
            }
        };
        let weights = [
            60,
            vice(60, 60),
            vice(40, 30),
            vice(30, 20),
            vice(30, 15),
            vice(40, 20),
            vice(30, 30),
            if bad { vice(60, 40) } else { 0 },
            if bad { vice(60, 40) } else { 0 },
        ];
        let lies = if bad { vice(70, 60) } else { 0 };
        let pauses = if bad { vice(40, 30) } else { 0 };
        let credits = vice(30, 40);
        let records = dice.pick(&[0, 1, 1, 2, 5, 20, 100, 1000]);
        let bytes = dice.pick(&[1, 200, 1000, 100_000, 1 << 20, 1 << 30]);
        let own_deadline = dice.chance(40);
        let leaving = match dice.weighted(&[40, 15, 15, 30]) {
            0 => Leaving::Close,
            1 => Leaving::HalfClose,
            2 => Leaving::Reset,
            _ => Leaving::Drop,
        };
        Self {
            pulls: None,
            credit: (records, bytes),
            confirm: dice.pick(&[0, 1, 1, 1, 2, 2]),
            ack_deadline: own_deadline.then(|| dice.ms(100, 10_000)),
            max_message_bytes: dice.pick(&[0, 0, 4096, 100_000]),
            weights,
            together: dice.pick(&[0, 50, 90, 100]),
            numbers: dice.pick(&[0, 50, 100]),
            ranges: dice.pick(&[0, 70, 100]),
            lies,
            credits,
            pauses,
            beats: dice.chance(70),
            life: dice.ms(100, 40_000),
            leaving,
        }
    }

    /// The same without a stream: what it takes it asks for by calls.
    pub(super) fn pulling(self, dice: &mut Dice) -> Self {
        Self {
            pulls: Some(Pulls::draw(dice)),
            credit: (0, 0),
            credits: 0,
            max_message_bytes: 0,
            // To a call every verdict is answered.
            confirm: self.confirm.max(1),
            ..self
        }
    }

    /// What becomes of a record.
    pub(super) fn fate(&self, dice: &mut Dice) -> Fate {
        FATES[dice.weighted(&self.weights)]
    }
}
