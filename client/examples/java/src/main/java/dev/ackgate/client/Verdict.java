package dev.ackgate.client;

import com.google.protobuf.Duration;

/** An outcome with what goes with it. {@code retryAfter} is null for the gateway's own backoff. */
record Verdict(Outcome outcome, String code, String reason, java.time.Duration retryAfter) {
  /** Longest code and reason that the gateway keeps, in bytes of UTF-8. */
  private static final int MAX_CODE = 128;

  private static final int MAX_REASON = 1_024;
  private static final java.time.Duration MAX_RETRY = java.time.Duration.ofHours(1);

  static final Verdict ACKED = new Verdict(Outcome.ACKED, "", "", null);
  static final Verdict RELEASED = new Verdict(Outcome.RELEASED, "", "", null);

  static Verdict rejected(String code, String reason) {
    return new Verdict(Outcome.REJECTED, cut(code, MAX_CODE), cut(reason, MAX_REASON), null);
  }

  static Verdict failed(String code, String reason, java.time.Duration retryAfter) {
    java.time.Duration bounded = retryAfter;
    if (bounded != null && bounded.isNegative()) {
      bounded = java.time.Duration.ZERO;
    } else if (bounded != null && bounded.compareTo(MAX_RETRY) > 0) {
      bounded = MAX_RETRY;
    }
    return new Verdict(Outcome.FAILED, cut(code, MAX_CODE), cut(reason, MAX_REASON), bounded);
  }

  /** Reads how a handler ended; null: it returned. */
  static Verdict of(Throwable thrown) {
    if (thrown == null) {
      return ACKED;
    }
    if (thrown instanceof RejectException reject) {
      return rejected(reject.code(), reject.getMessage());
    }
    if (thrown instanceof RetryException retry) {
      return failed("retry", retry.getMessage(), retry.after());
    }
    if (thrown instanceof ReleaseException) {
      return RELEASED;
    }
    return failed("handler", thrown.toString(), null);
  }

  /** The longest beginning that fits, so that a long reason never costs the verdict. */
  static String cut(String text, int most) {
    if (text == null) {
      return "";
    }
    int bytes = 0;
    int at = 0;
    while (at < text.length()) {
      int point = text.codePointAt(at);
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (bytes > most) {
        return text.substring(0, at);
      }
      at += Character.charCount(point);
    }
    return text;
  }

  /** The verdict on {@code run} as the protocol has it. */
  dev.ackgate.v1.Verdict wire(Run run) {
    var wire =
        dev.ackgate.v1.Verdict.newBuilder()
            .setLane(run.lane().id)
            .setFirstOffset(run.first())
            .setDelivery(run.of().delivery())
            .setOutcome(
                switch (outcome) {
                  case ACKED -> dev.ackgate.v1.Outcome.OUTCOME_ACKED;
                  case REJECTED -> dev.ackgate.v1.Outcome.OUTCOME_REJECTED;
                  case FAILED -> dev.ackgate.v1.Outcome.OUTCOME_FAILED;
                  case RELEASED -> dev.ackgate.v1.Outcome.OUTCOME_RELEASED;
                })
            .setCode(code)
            .setReason(reason);
    if (run.last() != run.first()) {
      wire.setLastOffset(run.last());
    }
    if (retryAfter != null) {
      wire.setRetryAfter(wire(retryAfter));
    }
    return wire.build();
  }

  static Duration wire(java.time.Duration duration) {
    return Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
  }
}
