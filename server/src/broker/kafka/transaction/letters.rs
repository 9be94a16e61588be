//! Letters of a transaction: where they go, and which of them were refused.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::error::KafkaError;

use super::{super::destination, Trouble};
use crate::broker::{self, Error, ErrorKind, Outgoing};

/// Partitions can be added: their number counts for this long.
const FRESH: Duration = Duration::from_secs(60);

/// A question may take seconds, and a transaction has hundreds of letters: one without an
/// answer is not asked again for this long.
const PAUSE: Duration = Duration::from_secs(1);

/// How many partitions topics have, or why that is not known, and until when that counts.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, (Result<u32, Error>, Instant)>);

impl Places {
    /// The letter, in a partition that its topic has. `count` asks for their number.
    pub(super) fn place(
        &mut self,
        letter: &Outgoing,
        count: impl FnOnce(&str) -> Result<u32, Error>,
    ) -> Result<Outgoing, Error> {
        let mut letter = letter.clone();
        let Some(partition) = letter.partition else {
            return Ok(letter);
        };
        let known = self.0.get(&letter.topic);
        let count = match known.filter(|(_, until)| Instant::now() < *until) {
            Some((count, _)) => count.clone(),
            None => {
                let count = count(&letter.topic);
                let counts_for = if count.is_ok() { FRESH } else { PAUSE };
                let known = (count.clone(), Instant::now() + counts_for);
                self.0.insert(letter.topic.clone(), known);
                count
            }
        };
        letter.partition = Some(broker::modulo(partition, count?));
        Ok(letter)
    }

    /// `topic` has refused a letter: what is known of it may be wrong.
    pub(super) fn doubt(&mut self, topic: &str, error: &KafkaError) {
        if destination::is_doubtful(error) {
            self.0.remove(topic);
        }
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
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;
    use crate::broker::kafka::error as errors;

    fn letter() -> Outgoing {
        Outgoing {
            topic: "letters".to_owned(),
            partition: Some(5),
            key: None,
            value: None,
            headers: Vec::new(),
            timestamp_ms: None,
        }
    }

    #[test]
    fn of_hundreds_of_letters_one_waits_for_a_topic_of_which_nobody_tells() {
        let (mut places, mut asked) = (Places::default(), 0);
        for _ in 0..256 {
            let placed = places.place(&letter(), |_| {
                asked += 1;
                Err(errors::transient("nobody answers"))
            });
            assert!(placed.is_err());
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn topic_that_was_made_anew_with_fewer_partitions_is_asked_about_anew() {
        let mut places = Places::default();
        let placed = |places: &mut Places, count| {
            let placed = places.place(&letter(), |_| Ok(count));
            placed.ok().and_then(|letter| letter.partition)
        };
        assert_eq!(placed(&mut places, 6), Some(5));
        assert_eq!(
            placed(&mut places, 2),
            Some(5),
            "what is known is not asked"
        );
        let unknown = KafkaError::MessageProduction(RDKafkaErrorCode::UnknownPartition);
        places.doubt("letters", &unknown);
        assert_eq!(placed(&mut places, 2), Some(1));
    }

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
