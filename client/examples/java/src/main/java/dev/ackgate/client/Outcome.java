package dev.ackgate.client;

/** What a verdict says. */
public enum Outcome {
  /** Done. */
  ACKED,
  /** Refused for good: a dead letter now. */
  REJECTED,
  /** Not this time: again after a backoff. Uses an attempt. */
  FAILED,
  /** Not begun: again at once, elsewhere if possible. */
  RELEASED
}
