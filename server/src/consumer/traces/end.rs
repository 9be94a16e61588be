//! [`End`]: the ways in which a delivery ends, as its span names them.

use ackgate_lane::{Return, Verdict};

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::consumer) enum End {
    /// The subscriber has done it.
    Acked,
    /// The subscriber refuses it for good.
    Rejected,
    /// It did not work this time.
    Failed,
    /// The subscriber gave it back.
    Released,
    /// Its deadline passed.
    Expired,
    /// The subscriber has gone.
    Lost,
    /// The group may have given the lane away.
    Fenced,
    /// A failure before it in the lane made it void.
    Rewound,
    /// The lane went with it.
    Drained,
    /// Its record was settled without it, or its lane ended.
    Void,
}

impl End {
    /// By a verdict.
    pub(in crate::consumer) const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Acked => Self::Acked,
            Verdict::Rejected => Self::Rejected,
            Verdict::Failed { .. } => Self::Failed,
            Verdict::Released => Self::Released,
        }
    }

    /// Without one; `is_fenced` says that the group has not been heard of.
    pub(in crate::consumer) const fn without(why: Return, is_fenced: bool) -> Self {
        match why {
            // Of a subscriber that said goodbye: those of others have their verdict.
            Return::Verdict => Self::Released,
            Return::Expired => Self::Expired,
            Return::Lost if is_fenced => Self::Fenced,
            Return::Lost => Self::Lost,
            Return::Rewound => Self::Rewound,
            Return::Drained => Self::Drained,
        }
    }

    pub(super) const fn is_verdict(self) -> bool {
        matches!(
            self,
            Self::Acked | Self::Rejected | Self::Failed | Self::Released
        )
    }

    pub(super) const fn is_error(self) -> bool {
        !matches!(self, Self::Acked | Self::Released | Self::Drained)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::Fenced => "fenced",
            Self::Rewound => "rewound",
            Self::Drained => "drained",
            Self::Void => "void",
        }
    }
}
