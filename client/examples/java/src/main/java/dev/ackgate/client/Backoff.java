package dev.ackgate.client;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Spaces out tries: full jitter, so that many subscribers that lost the same gateway do not come
 * back together.
 */
final class Backoff {
  private final Duration first;
  private final Duration most;

  /** Tried in turn: a round over all of them is one step. */
  private final int addresses;

  private int failures;

  Backoff(Duration first, Duration most, int addresses) {
    this.addresses = addresses;
    this.first = first;
    this.most = most;
  }

  /** A random delay up to a limit that doubles with each failure in a row, and no shorter than {@code least}. */
  Duration next(Duration least) {
    double doubled = first.toMillis() * Math.pow(2, failures / addresses);
    long limit = (long) Math.min(most.toMillis(), doubled);
    failures++;
    Duration delay = Duration.ofMillis(ThreadLocalRandom.current().nextLong(limit + 1));
    return delay.compareTo(least) < 0 ? least : delay;
  }

  int failures() {
    return failures;
  }

  /** Begins anew, after something that was of use. */
  void reset() {
    failures = 0;
  }
}
