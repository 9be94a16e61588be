//! The naive model: one cell for every record and subscriber.

use std::collections::{BTreeMap, BTreeSet};

/// What a subscriber has to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// It has not decided.
    Owes {
        /// Deadline of what is out, if it is.
        out: Option<u64>,
        attempts: u32,
        /// Its deadline passed, it was not handed out again, it may still answer.
        late: bool,
    },
    Acked,
    Refused,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Fanned out to nobody.
    Waiting,
    Open,
    DeadLettering,
    Settled,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) fate: Option<Fate>,
    pub(crate) cells: BTreeMap<u64, Cell>,
    acked: u32,
    pub(crate) refused: u32,
    /// Failed writes of its dead letter.
    tries: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) records: BTreeMap<u64, Record>,
    pub(crate) present: BTreeSet<u64>,
    /// With the time until which they are waited for.
    pub(crate) absent: BTreeMap<u64, u64>,
    pub(crate) next: u64,
    pub(crate) max_attempts: u32,
    /// Failed writes after which a record settles without a dead letter.
    pub(crate) discard_at: u32,
    /// Failed writes after which it is set aside.
    pub(crate) park_at: u32,
}

const FRESH: Cell = Cell::Owes {
    out: None,
    attempts: 0,
    late: false,
};

impl Model {
    pub(crate) fn fetch(&mut self, first: u64, count: u64) {
        for offset in first..first + count {
            let fate = Some(Fate::Waiting);
            self.records.insert(
                offset,
                Record {
                    fate,
                    ..Record::default()
                },
            );
        }
        self.next = first + count;
        self.follow();
    }

    pub(crate) fn join(&mut self, who: u64) {
        self.absent.remove(&who);
        self.present.insert(who);
        self.follow();
    }

    /// It goes for good.
    pub(crate) fn close(&mut self, who: u64) {
        self.present.remove(&who);
        self.absent.remove(&who);
        for record in self.records.values_mut() {
            record.cells.remove(&who);
        }
        self.follow();
    }

    pub(crate) fn lose(&mut self, who: u64, until: u64) {
        if !self.present.remove(&who) {
            return;
        }
        let mut owes = false;
        for record in self.records.values_mut() {
            if let Some(Cell::Owes { out, .. }) = record.cells.get_mut(&who) {
                // An expired one may still be answered by who is back.
                *out = None;
                owes = true;
            }
        }
        if owes {
            self.absent.insert(who, until);
        } else {
            self.close(who);
        }
    }

    /// What may go out to `who`, lowest first.
    pub(crate) fn ready(&self, who: u64) -> BTreeSet<u64> {
        let ready = |(_, record): &(&u64, &Record)| {
            matches!(record.cells.get(&who), Some(Cell::Owes { out: None, .. }))
        };
        if !self.present.contains(&who) || self.is_stopped() {
            return BTreeSet::new();
        }
        self.records
            .iter()
            .filter(ready)
            .map(|(offset, _)| *offset)
            .collect()
    }

    pub(crate) fn take(&mut self, who: u64, offset: u64, deadline: u64) {
        let cell = self.records.get_mut(&offset).expect("it is there");
        if let Some(Cell::Owes { out, late, .. }) = cell.cells.get_mut(&who) {
            (*out, *late) = (Some(deadline), false);
        }
    }

    /// Whether a verdict counts, and if so what follows.
    pub(crate) fn say(&mut self, who: u64, offset: u64, word: crate::Word) -> bool {
        let max = self.max_attempts;
        let Some(record) = self.records.get_mut(&offset) else {
            return false;
        };
        let Some(Cell::Owes {
            out,
            attempts,
            late,
        }) = record.cells.get(&who).copied()
        else {
            return false;
        };
        if out.is_none() && !late {
            return false;
        }
        let back = |attempts: u32| {
            if attempts >= max {
                Cell::Refused
            } else {
                Cell::Owes {
                    out: None,
                    attempts,
                    late: false,
                }
            }
        };
        let cell = match word {
            crate::Word::Ack => Cell::Acked,
            crate::Word::Reject => Cell::Refused,
            // The expiry has used the attempt of a late one.
            crate::Word::Fail if out.is_some() => back(attempts + 1),
            crate::Word::Fail | crate::Word::Release => back(attempts),
        };
        record.put(who, cell);
        true
    }

    /// Deadlines up to `now` pass, then the times of absent subscribers.
    pub(crate) fn pass(&mut self, now: u64) {
        let max = self.max_attempts;
        for record in self.records.values_mut() {
            let cells: Vec<(u64, Cell)> = record.cells.iter().map(|(k, v)| (*k, *v)).collect();
            for (who, cell) in cells {
                if let Cell::Owes {
                    out: Some(deadline),
                    attempts,
                    ..
                } = cell
                    && deadline <= now
                {
                    let attempts = attempts + 1;
                    let cell = if attempts >= max {
                        Cell::Refused
                    } else {
                        Cell::Owes {
                            out: None,
                            attempts,
                            late: true,
                        }
                    };
                    record.put(who, cell);
                }
            }
        }
        self.follow();
        let over = |(_, until): &(&u64, &u64)| **until <= now;
        let gone: Vec<u64> = self.absent.iter().filter(over).map(|(w, _)| *w).collect();
        for who in gone {
            self.close(who);
        }
    }

    pub(crate) fn stored(&mut self, offset: u64) {
        let record = self.records.get_mut(&offset).expect("it is there");
        record.fate = Some(Fate::Settled);
        self.follow();
    }

    /// Whether nothing is handed out, since a dead letter cannot be written.
    fn is_stopped(&self) -> bool {
        self.records.values().any(|record| {
            record.fate == Some(Fate::DeadLettering) && (1..self.park_at).contains(&record.tries)
        })
    }

    /// Its dead letter could not be written.
    pub(crate) fn unwritten(&mut self, offset: u64) {
        let record = self.records.get_mut(&offset).expect("it is there");
        record.tries += 1;
        if record.tries >= self.discard_at {
            record.fate = Some(Fate::Settled);
        }
        self.follow();
    }

    /// Decides what everybody has answered and fans out what waits.
    pub(crate) fn follow(&mut self) {
        for record in self.records.values_mut() {
            let owes = |cell: &Cell| matches!(cell, Cell::Owes { .. });
            if record.fate != Some(Fate::Open) || record.cells.values().any(owes) {
                continue;
            }
            record.fate = Some(if record.refused > 0 {
                Fate::DeadLettering
            } else if record.acked > 0 {
                Fate::Settled
            } else {
                record.cells.clear();
                Fate::Waiting
            });
        }
        if self.present.is_empty() || self.is_stopped() {
            return;
        }
        for record in self.records.values_mut() {
            if record.fate == Some(Fate::Waiting) {
                record.fate = Some(Fate::Open);
                record.cells = self.present.iter().map(|who| (*who, FRESH)).collect();
            }
        }
    }

    pub(crate) fn with_fate(&self, fate: Fate) -> BTreeSet<u64> {
        let of = |(_, record): &(&u64, &Record)| record.fate == Some(fate);
        let all = self.records.iter().filter(of);
        all.map(|(offset, _)| *offset).collect()
    }

    pub(crate) fn floor(&self) -> u64 {
        let unsettled = |(_, record): &(&u64, &Record)| record.fate != Some(Fate::Settled);
        let lowest = self.records.iter().find(unsettled);
        lowest.map_or(self.next, |(offset, _)| *offset)
    }
}

impl Record {
    fn put(&mut self, who: u64, cell: Cell) {
        self.cells.insert(who, cell);
        self.acked += u32::from(cell == Cell::Acked);
        self.refused += u32::from(cell == Cell::Refused);
    }
}
