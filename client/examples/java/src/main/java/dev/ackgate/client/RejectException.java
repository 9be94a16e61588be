package dev.ackgate.client;

/** A handler's refusal of a record for good: it becomes a dead letter now. */
public class RejectException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final String code;

  /** Refuses with {@code code} (short and stable, at most 128 bytes) and {@code reason} (at most 1 KiB); longer ones are cut. */
  public RejectException(String code, String reason) {
    super(reason);
    this.code = code;
  }

  /** Returns the code that stands in the dead letter. */
  public String code() {
    return code;
  }
}
