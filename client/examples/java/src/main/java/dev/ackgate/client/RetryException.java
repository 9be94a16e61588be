package dev.ackgate.client;

import java.time.Duration;

/** A handler's wish to get the record again later. Uses an attempt. */
public class RetryException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Duration after;

  /** Asks for the record again, not before {@code after} (at most an hour), in place of the gateway's backoff. */
  public RetryException(Duration after, String reason) {
    super(reason);
    this.after = after;
  }

  /** Asks for the record again because of {@code cause}. */
  public RetryException(Duration after, Throwable cause) {
    super(cause);
    this.after = after;
  }

  /** Returns the least time until then. */
  public Duration after() {
    return after;
  }
}
