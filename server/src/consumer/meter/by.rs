//! [`By`]: counts by the members of a small closed set, in plain integers.

use std::{fmt, marker::PhantomData};

/// A closed set of reasons, kinds or outcomes, each with a name for whoever reads counts.
pub trait Closed: Copy + 'static {
    /// All of them, in the order in which they are numbered from 0.
    const ALL: &'static [Self];

    /// Its name.
    fn name(self) -> &'static str;

    /// Its place in [`Self::ALL`].
    fn index(self) -> usize;
}

/// Members of the largest set.
pub(in crate::consumer) const MOST: usize = 8;

/// How often each member of a set was counted.
pub struct By<S> {
    counts: [u64; MOST],
    of: PhantomData<S>,
}

impl<S> Clone for By<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for By<S> {}

impl<S> Default for By<S> {
    fn default() -> Self {
        Self {
            counts: [0; MOST],
            of: PhantomData,
        }
    }
}

impl<S: Closed> fmt::Debug for By<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.each().map(|(of, count)| (of.name(), count));
        f.debug_map().entries(each).finish()
    }
}

impl<S: Closed> By<S> {
    /// Counts so many more of `of`.
    pub(in crate::consumer) fn note(&mut self, of: S, many: u64) {
        if let Some(count) = self.counts.get_mut(of.index()) {
            *count = count.saturating_add(many);
        }
    }

    /// Adds what `other` has counted.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// How often `of` was counted.
    #[must_use]
    pub fn of(&self, of: S) -> u64 {
        self.counts.get(of.index()).copied().unwrap_or_default()
    }

    /// Every member with its count, those that were never counted included.
    pub fn each(&self) -> impl Iterator<Item = (S, u64)> + '_ {
        S::ALL.iter().map(|of| (*of, self.of(*of)))
    }
}

/// Makes a closed set.
macro_rules! closed {
    ($(#[$about:meta])* $set:ident { $($(#[$what:meta])* $member:ident = $name:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $set {
            $($(#[$what])* $member),*
        }

        impl $crate::consumer::meter::Closed for $set {
            const ALL: &'static [Self] = &[$(Self::$member),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $name),*
                }
            }

            fn index(self) -> usize {
                self as usize
            }
        }

        // Every set has a place for each of its members.
        const _: () = assert!(
            <$set as $crate::consumer::meter::Closed>::ALL.len()
                <= $crate::consumer::meter::MOST
        );
    };
}

pub(in crate::consumer) use closed;
