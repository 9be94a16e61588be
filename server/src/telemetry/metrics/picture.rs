//! [`Picture`]: all series of one moment, whatever they are told in.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::names::{ALL, Spec};

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    /// One of a closed set.
    Fixed(&'static str),
    /// A name of the configuration, or a topic's.
    Name(Arc<str>),
    /// A partition.
    Number(i32),
}

impl Label {
    /// As text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Fixed(text) => Cow::Borrowed(text),
            Self::Name(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

impl From<&'static str> for Label {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<&Arc<str>> for Label {
    fn from(text: &Arc<str>) -> Self {
        Self::Name(Arc::clone(text))
    }
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Real(f64),
    /// A distribution.
    Spread(Spread),
}

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    /// Upper bounds, each included, and how many there are in each class.
    pub(super) classes: Vec<(f64, u64)>,
    /// How many lie above.
    pub(super) above: u64,
    /// All together.
    pub(super) sum: f64,
}

impl Spread {
    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        let within = self.classes.iter().map(|(_, count)| count);
        within.fold(self.above, |sum, count| sum.saturating_add(*count))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Whole(is.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Spread> for Value {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

/// One series: the values of its labels, and its own.
pub(super) type Series = (Vec<Label>, Value);

/// All series of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    families: BTreeMap<&'static str, Vec<Series>>,
}

impl Picture {
    /// Adds a series. Its labels are those of `spec`, in order.
    pub(super) fn put(&mut self, spec: &Spec, labels: Vec<Label>, value: impl Into<Value>) {
        debug_assert_eq!(labels.len(), spec.labels.len(), "{}", spec.name);
        let family = self.families.entry(spec.name).or_default();
        family.push((labels, value.into()));
    }

    /// Families that have a series, in the order of the table of names.
    pub(super) fn families(&self) -> impl Iterator<Item = (&'static Spec, &[Series])> {
        ALL.iter().filter_map(|spec| {
            let series = self.families.get(spec.name)?;
            Some((spec, series.as_slice()))
        })
    }
}
