//! Letters of a transaction: where they go, and which of them were refused.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    super::{destination, producer::Client},
    Trouble,
};
use crate::broker::{self, Error, ErrorKind, Outgoing};

/// Partitions can be added: their number counts for this long.
const FRESH: Duration = Duration::from_secs(60);

/// How many partitions topics have.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, (u32, Instant)>);

impl Places {
    /// The letter, in a partition that its topic has.
    pub(super) fn place(
        &mut self,
        producer: &Client,
        letter: &Outgoing,
    ) -> Result<Outgoing, Error> {
        let mut letter = letter.clone();
        let Some(partition) = letter.partition else {
            return Ok(letter);
        };
        let known = self.0.get(&letter.topic);
        let count = match known.filter(|(_, asked)| asked.elapsed() < FRESH) {
            Some((count, _)) => *count,
            None => {
                let count = destination::count(producer, &letter.topic)?;
                self.0.insert(letter.topic.clone(), (count, Instant::now()));
                count
            }
        };
        letter.partition = Some(broker::modulo(partition, count));
        Ok(letter)
    }
}

/// Letters that were refused, by the index of their commit.
#[derive(Default)]
pub(super) struct Refused {
    /// For reasons of their own.
    own: BTreeMap<usize, Error>,
    /// Because others were.
    along: Option<Error>,
}

impl Refused {
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.along.is_none()
    }

    pub(super) fn note(&mut self, index: usize, number: usize, mut error: Error, along: bool) {
        if along {
            self.along.get_or_insert(error);
            return;
        }
        if error.kind == ErrorKind::TooLarge {
            error.kind = ErrorKind::LetterTooLarge(number);
        }
        self.own.entry(index).or_insert(error);
    }

    pub(super) fn verdict(self) -> Result<(), Trouble> {
        match self.along {
            _ if !self.own.is_empty() => Err(Trouble::Letters(self.own)),
            Some(error) => Err(Trouble::Nothing(error)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::error as errors;

    fn too_large() -> Error {
        Error {
            kind: ErrorKind::TooLarge,
            detail: "too large".to_owned(),
        }
    }

    #[test]
    fn letters_that_were_refused_for_others_sake_are_not_blamed() {
        let mut refused = Refused::default();
        refused.note(0, 1, errors::transient("purged"), true);
        refused.note(2, 3, too_large(), false);
        refused.note(2, 4, errors::transient("later"), false);
        let Err(Trouble::Letters(why)) = refused.verdict() else {
            panic!("one is to blame");
        };
        assert_eq!(why.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(why[&2].kind, ErrorKind::LetterTooLarge(3));
        let mut refused = Refused::default();
        refused.note(0, 1, errors::transient("purged"), true);
        assert!(matches!(refused.verdict(), Err(Trouble::Nothing(_))));
    }
}
