//! What the broker in memory takes: commits with their dead letters, and records.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{Memory, State, atomic};
use crate::broker::{
    Commit, Error, ErrorKind, Event, Flushed, Outgoing, Partitions, Placed, Produced, Producer,
};

impl State {
    pub(super) fn commit(&mut self, commit: Commit) -> Event {
        let error = |kind, detail: &str| {
            Err(Error {
                kind,
                detail: detail.to_owned(),
            })
        };
        let result = match self.lanes.get(&commit.generation) {
            None => error(ErrorKind::Fenced, "not assigned"),
            Some(_) if self.commits_fail => error(ErrorKind::Transient, "as told"),
            Some(_) if is_too_large(&commit, self.metadata_limit) => {
                error(ErrorKind::TooLarge, "metadata")
            }
            Some(_) if self.letters_fail && !commit.letters.is_empty() => {
                error(ErrorKind::Transient, "letters as told")
            }
            Some(_) if let Some(index) = self.too_large_letter(&commit) => {
                error(ErrorKind::LetterTooLarge(index), "letter")
            }
            Some(reading) => {
                match &commit.metadata {
                    Some(text) => self.metadata.insert(reading.partition, Arc::clone(text)),
                    None => self.metadata.remove(&reading.partition),
                };
                self.committed
                    .insert(reading.partition, commit.position.get());
                self.commits
                    .push((reading.partition, commit.position.get()));
                let untrue = atomic::untrue(&self.letters, &commit);
                self.untrue_letters.extend(untrue);
                self.letters.extend(commit.letters.iter().cloned());
                Ok(())
            }
        };
        Event::Committed { commit, result }
    }

    fn too_large_letter(&self, commit: &Commit) -> Option<usize> {
        let limit = self.letters_limit?;
        let mut letters = commit.letters.iter();
        letters.position(|letter| size(letter) > limit)
    }
}

impl Producer for Memory {
    fn produce(&self, record: Outgoing) -> Produced {
        let result = self.with(|state| {
            state.letters_tried += 1;
            let is_of = |partition: i32| {
                let partition = partition.to_string();
                record.headers.iter().any(|(name, value)| {
                    name == "ackgate.dead-letter.partition"
                        && value.as_deref() == Some(partition.as_bytes())
                })
            };
            if state.letters_fail || state.letters_fail_of.is_some_and(is_of) {
                return Err(Error {
                    kind: ErrorKind::Transient,
                    detail: "as told".to_owned(),
                });
            }
            if state.letters_full {
                return Err(Error {
                    kind: ErrorKind::Full,
                    detail: "full".to_owned(),
                });
            }
            if state
                .letters_limit
                .is_some_and(|limit| size(&record) > limit)
            {
                return Err(Error {
                    kind: ErrorKind::TooLarge,
                    detail: "too large".to_owned(),
                });
            }
            state.letters.push(record);
            Ok(Placed {
                partition: 0,
                offset: 0,
            })
        });
        Box::pin(std::future::ready(result))
    }

    fn partitions(&self, _topic: &str) -> Partitions {
        let partitions = self.with(|state| state.letters_partitions);
        Box::pin(std::future::ready(Ok(partitions)))
    }

    fn flushed(&self, _timeout: Duration) -> Flushed {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn size(record: &Outgoing) -> usize {
    let part = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let headers = record.headers.iter();
    let headers: usize = headers.map(|(name, value)| name.len() + part(value)).sum();
    part(&record.key) + part(&record.value) + headers
}

fn is_too_large(commit: &Commit, limit: Option<usize>) -> bool {
    let size = commit.metadata.as_ref().map_or(0, |text| text.len());
    limit.is_some_and(|limit| size > limit)
}
