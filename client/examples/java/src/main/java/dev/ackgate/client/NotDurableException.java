package dev.ackgate.client;

import java.util.Optional;

/** A verdict is not known to be durable: the record may come again. */
public final class NotDurableException extends Exception {
  private static final long serialVersionUID = 1;

  private final Event.Kind kind;

  NotDurableException(String message, Event.Kind kind) {
    super(message);
    this.kind = kind;
  }

  static NotDurableException sessionEnded() {
    return new NotDurableException("the stream ended before the verdict was confirmed", null);
  }

  /**
   * Returns what the gateway said of the verdict. Empty: nobody asked for durable confirmations, or
   * the stream ended before the answer, and the verdict may have become durable all the same.
   */
  public Optional<Event.Kind> kind() {
    return Optional.ofNullable(kind);
  }
}
