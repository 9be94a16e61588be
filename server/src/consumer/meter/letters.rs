//! [`Letters`]: dead letters by cause and outcome.

use ackgate_lane::Cause;

use super::{
    by::{By, Closed},
    sets::LetterOutcome,
};

/// Causes there are.
const CAUSES: usize = <Cause as Closed>::ALL.len();

/// Dead letters, by why their records were given up and what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::consumer) struct Letters([By<LetterOutcome>; CAUSES]);

impl Letters {
    pub(in crate::consumer) fn note(&mut self, cause: Cause, outcome: LetterOutcome) {
        if let Some(of) = self.0.get_mut(cause.index()) {
            of.note(outcome, 1);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (of, more) in self.0.iter_mut().zip(&other.0) {
            of.add(more);
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (Cause, LetterOutcome, u64)> + '_ {
        let causes = Cause::ALL.iter().zip(&self.0);
        causes.flat_map(|(cause, of)| {
            of.each()
                .map(move |(outcome, count)| (*cause, outcome, count))
        })
    }
}
