package dev.ackgate.client;

import java.util.concurrent.atomic.LongAdder;

/** The living {@link Stats}. */
final class Counters {
  final LongAdder records = new LongAdder();
  final LongAdder batches = new LongAdder();
  final LongAdder lost = new LongAdder();
  final LongAdder problems = new LongAdder();
  final LongAdder discarded = new LongAdder();
  final LongAdder refused = new LongAdder();
  final LongAdder sessions = new LongAdder();
  private final LongAdder[] outcomes = new LongAdder[Outcome.values().length];

  Counters() {
    for (int i = 0; i < outcomes.length; i++) {
      outcomes[i] = new LongAdder();
    }
  }

  LongAdder of(Outcome outcome) {
    return outcomes[outcome.ordinal()];
  }

  Stats snapshot() {
    return new Stats(
        records.sum(),
        batches.sum(),
        of(Outcome.ACKED).sum(),
        of(Outcome.REJECTED).sum(),
        of(Outcome.FAILED).sum(),
        of(Outcome.RELEASED).sum(),
        lost.sum(),
        problems.sum(),
        discarded.sum(),
        refused.sum(),
        Math.max(0, sessions.sum() - 1));
  }
}
