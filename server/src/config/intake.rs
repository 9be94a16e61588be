//! What a subscription does with records before any subscriber sees them.

use std::time::Duration;

use ackgate_lane::OnExpired;

use crate::filter::Filter;

/// Which records are handed out at all, and when. By default every one at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Records wait until they are this old; zero: they do not wait.
    pub min_age: Duration,
    /// Records that are older than this before they are handed out never are.
    pub max_age: Option<MaxAge>,
    /// Records that it says no to settle without being handed out.
    pub filter: Option<Filter>,
    /// What values must be.
    pub content: Option<Content>,
}

/// The age at which a record is too old, above [`Intake::min_age`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxAge {
    /// A record of exactly this age is not too old.
    pub age: Duration,
    /// What happens to one that is.
    pub then: OnExpired,
}

/// What values must be, and what happens to those that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// What they must be.
    pub check: Check,
    /// What happens otherwise.
    pub on_failure: OnFailure,
}

/// What a value must be. Null is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// UTF-8 text.
    Utf8,
    /// One JSON text, at most 128 levels deep.
    Json,
    /// One `MessagePack` value, at most 128 levels deep.
    Msgpack,
}

/// What happens to a record whose value is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It goes the way of rejected records.
    Reject,
    /// It settles without being handed out.
    Skip,
    /// It is handed out all the same.
    Deliver,
}

impl Check {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }
}

impl Intake {
    /// Whether a record's age alone may keep it from being handed out.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.max_age.is_some() || !self.min_age.is_zero()
    }

    /// Whether records have to be decoded.
    #[must_use]
    pub const fn looks_inside(&self) -> bool {
        self.filter.is_some() || self.content.is_some()
    }

    /// Whether every record is handed out at once, as it came.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        !self.is_timed() && !self.looks_inside()
    }
}
