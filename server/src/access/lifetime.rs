//! How long a certificate holds.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// Fewer days than this are worth a warning.
const SOON: i64 = 14;

const DAY: i64 = 24 * 60 * 60;

/// From when until when, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    begins: i64,
    ends: i64,
}

impl Lifetime {
    /// The time in which every certificate of a chain holds.
    ///
    /// # Errors
    /// One of them is none, by its number from 1.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Result<Self, usize> {
        let mut lifetime = Self {
            begins: i64::MIN,
            ends: i64::MAX,
        };
        for (number, der) in (1_usize..).zip(chain) {
            let (_, certificate) = parse_x509_certificate(der).map_err(|_| number)?;
            let validity = certificate.validity();
            lifetime.begins = lifetime.begins.max(validity.not_before.timestamp());
            lifetime.ends = lifetime.ends.min(validity.not_after.timestamp());
        }
        Ok(lifetime)
    }

    /// Whole days that are left; below 0: it has ended.
    pub(super) fn days_left(self, now: SystemTime) -> i64 {
        self.ends.saturating_sub(seconds(now)).div_euclid(DAY)
    }

    /// What an operator should know, if anything.
    pub(super) fn warning(self, now: SystemTime) -> Option<String> {
        let days = self.days_left(now);
        if seconds(now) < self.begins {
            let later = self.begins.saturating_sub(seconds(now)) / DAY;
            Some(format!(
                "is not valid yet: clients refuse it for {later} more days"
            ))
        } else if days < 0 {
            Some("has ended: clients refuse it".to_owned())
        } else if days < SOON {
            Some(format!(
                "ends in {days} days: clients refuse it from then on"
            ))
        } else {
            None
        }
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn operators_are_told_two_weeks_before_the_end() {
        let lifetime = Lifetime {
            begins: 10 * DAY,
            ends: 100 * DAY,
        };
        let on = |day: u64| UNIX_EPOCH + Duration::from_secs(day * 24 * 60 * 60);
        let said = |day| lifetime.warning(on(day)).unwrap_or_default();
        assert!(said(9).contains("not valid yet"), "{}", said(9));
        assert_eq!(said(10), "");
        assert_eq!((lifetime.days_left(on(86)), said(86)), (14, String::new()));
        assert!(said(87).contains("ends in 13 days"), "{}", said(87));
        assert!(said(100).contains("ends in 0 days"), "{}", said(100));
        assert!(said(101).contains("has ended"), "{}", said(101));
    }
}
