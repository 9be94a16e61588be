//! Failures in a row: how far apart tries are, and when there are no more of them.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

use crate::Error;

/// Longest wait that a gateway can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What a gateway asks for is the least wait. Clients that were refused together spread
/// over so many times as long after it.
const ASKED_SPREAD: f64 = 3.0;

/// How to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Longest delay before the first retry; it doubles from retry to retry.
    pub(crate) initial: Duration,
    /// Longest delay of all.
    pub(crate) max: Duration,
    /// Retries in a row; `None`: as many as it takes.
    pub(crate) limit: Option<u32>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(250),
            max: Duration::from_secs(30),
            limit: None,
        }
    }
}

impl Retry {
    fn delays(self) -> ExponentialBackoff {
        ExponentialBuilder::default()
            .with_min_delay(self.initial)
            .with_max_delay(self.max)
            .without_max_times()
            .build()
    }
}

/// Counts failures in a row and spaces them out.
pub(crate) struct Tries {
    retry: Retry,
    /// Who tries, for the log.
    who: &'static str,
    delays: ExponentialBackoff,
    failures: u32,
    /// What the last one was, as it was logged: a refusal that goes on is told once.
    noted: String,
}

impl Tries {
    pub(crate) fn new(retry: Retry, who: &'static str) -> Self {
        Self {
            retry,
            who,
            delays: retry.delays(),
            failures: 0,
            noted: String::new(),
        }
    }

    pub(crate) fn after_success(&mut self) -> Duration {
        self.delays = self.retry.delays();
        self.failures = 0;
        self.delay()
    }

    pub(crate) fn after_failure(&mut self, error: &Error, useful: bool) -> Option<Duration> {
        if useful {
            self.after_success();
        }
        if self.retry.limit.is_some_and(|max| self.failures >= max) {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        let asked = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
        // It asks everybody for the same.
        let spread = asked.mul_f64(1.0 + ASKED_SPREAD * fastrand::f64());
        Some(self.delay().max(spread))
    }

    /// What to say when there are no more of them.
    pub(crate) fn gave_up(&self, error: Error) -> Error {
        Error::GaveUp {
            retries: self.failures,
            last: Box::new(error),
        }
    }

    /// Logs why there is another try.
    pub(crate) fn note(&mut self, error: &Error, delay: Duration, was_open: bool) {
        let (error, who) = (error.to_string(), self.who);
        if was_open {
            tracing::warn!(error, ?delay, "{who}: stream lost, connecting again");
        } else if error == self.noted {
            tracing::debug!(error, ?delay, "{who}: still no stream, trying again");
        } else {
            tracing::warn!(error, ?delay, "{who}: no stream, trying again");
        }
        self.noted = error;
    }

    /// Anything up to the bound of the moment: clients that lost a gateway together do
    /// not come back together.
    fn delay(&mut self) -> Duration {
        let bound = self.delays.next().unwrap_or(self.retry.max);
        bound.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    // FC-88.
    #[test]
    fn clients_that_were_refused_together_do_not_come_back_together() {
        fastrand::seed(7);
        let second = Duration::from_secs(1);
        let refused = Error::Status {
            code: Code::Unavailable,
            reason: "SHUTTING_DOWN".to_owned(),
            message: String::new(),
            retry_after: Some(second),
        };
        let mut buckets = [0; 8];
        for _ in 0..500 {
            let mut tries = Tries::new(Retry::default(), "subscriber");
            let delay = tries.after_failure(&refused, true).expect("no limit");
            assert!(delay >= second, "the least wait: {delay:?}");
            buckets[usize::try_from(delay.as_secs()).expect("few")] += 1;
        }
        let most = buckets.iter().max().expect("buckets");
        assert!(*most <= 200, "more than 40 % in one second: {buckets:?}");
    }

    #[test]
    fn clients_that_lost_their_gateway_together_spread_more_from_try_to_try() {
        fastrand::seed(7);
        let mut last = Duration::ZERO;
        let mut clients: Vec<Tries> = (0..500)
            .map(|_| Tries::new(Retry::default(), "subscriber"))
            .collect();
        for _ in 0..6 {
            let delays = clients.iter_mut().map(|tries| {
                let error = Error::Ended;
                tries.after_failure(&error, false).expect("no limit")
            });
            let delays: Vec<Duration> = delays.collect();
            let longest = *delays.iter().max().expect("some");
            assert!(longest > last.mul_f64(1.5), "{longest:?} after {last:?}");
            let early = delays.iter().filter(|it| **it < longest / 2).count();
            assert!((150..=350).contains(&early), "evenly: {early}");
            last = longest;
        }
    }
}
