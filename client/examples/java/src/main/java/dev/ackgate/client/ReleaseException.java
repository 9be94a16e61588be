package dev.ackgate.client;

/** A handler gives a record back untouched: again at once, elsewhere if possible. Uses no attempt. */
public class ReleaseException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Gives it back. */
  public ReleaseException() {
    super("record is given back");
  }
}
