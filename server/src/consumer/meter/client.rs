//! What Kafka's client tells of its own work, as the driver keeps it: its counters begin
//! anew with every consumer, these do not.

use crate::broker::ClientStats;

/// What Kafka's client has counted, over all consumers of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Bytes received from brokers.
    pub received: u64,
    /// Bytes sent to brokers.
    pub sent: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Connections that ended.
    pub disconnects: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Requests and answers that failed.
    pub errors: u64,
}

impl Client {
    /// Adds what `other` has counted.
    pub(super) const fn add(&mut self, other: &Self) {
        self.received = self.received.saturating_add(other.received);
        self.sent = self.sent.saturating_add(other.sent);
        self.connects = self.connects.saturating_add(other.connects);
        self.disconnects = self.disconnects.saturating_add(other.disconnects);
        self.timeouts = self.timeouts.saturating_add(other.timeouts);
        self.errors = self.errors.saturating_add(other.errors);
    }

    /// Adds what has come since `before`. A counter below what it was is another
    /// consumer's, which began at 0.
    pub(in crate::consumer) fn advance(&mut self, before: Option<&ClientStats>, now: &ClientStats) {
        let since = |of: fn(&ClientStats) -> u64| {
            let (before, now) = (before.map_or(0, of), of(now));
            now.checked_sub(before).unwrap_or(now)
        };
        let grown = Self {
            received: since(|of| of.received),
            sent: since(|of| of.sent),
            connects: since(|of| of.connects),
            disconnects: since(|of| of.disconnects),
            timeouts: since(|of| of.timeouts),
            errors: since(|of| of.errors),
        };
        self.add(&grown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_begin_anew_are_added_to_those_before() {
        let of = |received| ClientStats {
            received,
            ..ClientStats::default()
        };
        let mut client = Client::default();
        client.advance(None, &of(10));
        client.advance(Some(&of(10)), &of(15));
        assert_eq!(client.received, 15);
        client.advance(Some(&of(15)), &of(4));
        assert_eq!(client.received, 19);
    }
}
