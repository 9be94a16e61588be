//! Dead letters: slow, refused, or written although the answer says otherwise.

use std::time::Duration;

use super::{Cluster, Node, Seen, log};
use crate::{
    broker::{Commit, Error, ErrorKind, Flushed, Outgoing, Placed, Produced, Producer},
    headers::DEAD_LETTER as DEAD_LETTER_PREFIX,
};

/// What a dead letter says of its record.
#[derive(Clone, Debug)]
struct Letter {
    partition: i32,
    offset: u64,
    cause: String,
    attempts: u32,
    deliveries: u32,
    intact: bool,
}

/// Reads the provenance of a dead letter.
fn decode_letter(record: &Outgoing) -> Option<Letter> {
    let header = |name: &str| {
        let name = format!("{DEAD_LETTER_PREFIX}{name}");
        let found = record.headers.iter().find(|(key, _)| *key == name)?;
        String::from_utf8(found.1.clone()?.to_vec()).ok()
    };
    let partition = header("partition")?.parse().ok()?;
    let offset = header("offset")?.parse().ok()?;
    let omitted = header("value-omitted").is_some();
    Some(Letter {
        partition,
        offset,
        cause: header("cause")?,
        attempts: header("attempts")?.parse().ok()?,
        deliveries: header("deliveries")?.parse().ok()?,
        intact: omitted || record.value == Some(log::value(partition, offset)),
    })
}

/// How a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stored,
    TooLarge,
    Refused,
    /// Written, but the answer is lost.
    Unheard,
}

impl Node {
    fn fate(&self, letter: &Outgoing) -> (Fate, Duration) {
        let mut state = self.cluster.state.lock();
        let weather = state.weather.clone();
        let takes = state.dice.ms(0, weather.letters_take);
        let too_large = letter.value.is_some() && weather.letters_fail > 0 && state.dice.chance(4);
        let fate = if too_large {
            Fate::TooLarge
        } else if !state.dice.chance(weather.letters_fail) {
            Fate::Stored
        } else if state.dice.chance(33) {
            Fate::Unheard
        } else {
            Fate::Refused
        };
        (fate, takes)
    }

    fn is_dead(&self) -> bool {
        self.cluster.state.lock().dead.contains(&self.gateway)
    }

    async fn write(self, record: Outgoing) -> Result<Placed, Error> {
        let Some(letter) = decode_letter(&record) else {
            // A form without provenance, which nobody could judge: never taken here.
            return Err(Error {
                kind: ErrorKind::TooLarge,
                detail: "as the dice fell".to_owned(),
            });
        };
        let (fate, takes) = self.fate(&record);
        let reached = self.cluster.reach(Duration::from_secs(20)).await;
        tokio::time::sleep(takes / 2).await;
        if self.is_dead() {
            return std::future::pending().await;
        }
        let fate = if reached { fate } else { Fate::Refused };
        if matches!(fate, Fate::Stored | Fate::Unheard) {
            self.cluster.history.push(Seen::LetterStored {
                gateway: self.gateway,
                partition: letter.partition,
                offset: letter.offset,
                cause: letter.cause,
                attempts: letter.attempts,
                deliveries: letter.deliveries,
                intact: letter.intact,
            });
        }
        tokio::time::sleep(takes / 2).await;
        if self.is_dead() {
            return std::future::pending().await;
        }
        self.cluster.history.push(Seen::LetterAnswered {
            gateway: self.gateway,
            partition: letter.partition,
            offset: letter.offset,
            stored: fate == Fate::Stored,
        });
        let error = |kind| Error {
            kind,
            detail: "as the dice fell".to_owned(),
        };
        match fate {
            Fate::Stored => Ok(Placed {
                partition: 0,
                offset: 0,
            }),
            Fate::TooLarge => Err(error(ErrorKind::TooLarge)),
            Fate::Refused | Fate::Unheard => Err(error(ErrorKind::Transient)),
        }
    }
}

impl Cluster {
    /// Why the broker does not take the letters of a commit, nor the commit then.
    pub(super) fn refusal(&self, commit: &Commit) -> Option<Error> {
        if commit.letters.is_empty() {
            return None;
        }
        let mut state = self.state.lock();
        let fails = state.weather.letters_fail;
        let mut is_too_large = |letter: &Outgoing| {
            let unlucky = letter.value.is_some() && fails > 0 && state.dice.chance(4);
            // A form without provenance nobody could judge.
            unlucky || decode_letter(letter).is_none()
        };
        let kind = match commit.letters.iter().position(&mut is_too_large) {
            Some(index) => ErrorKind::LetterTooLarge(index),
            None if state.dice.chance(fails) => ErrorKind::Transient,
            None => return None,
        };
        Some(Error {
            kind,
            detail: "as the dice fell".to_owned(),
        })
    }

    /// The letters of a commit that takes effect now are there now.
    pub(super) fn store(&self, gateway: u64, commit: &Commit) {
        for letter in commit.letters.iter().filter_map(decode_letter) {
            let (partition, offset) = (letter.partition, letter.offset);
            self.history.push(Seen::LetterStored {
                gateway,
                partition,
                offset,
                cause: letter.cause,
                attempts: letter.attempts,
                deliveries: letter.deliveries,
                intact: letter.intact,
            });
            self.history.push(Seen::LetterAnswered {
                gateway,
                partition,
                offset,
                stored: true,
            });
        }
    }
}

impl Producer for Node {
    fn flushed(&self, _: Duration) -> Flushed {
        Box::pin(std::future::ready(Ok(())))
    }

    fn produce(&self, record: Outgoing) -> Produced {
        Box::pin(self.clone().write(record))
    }
}
