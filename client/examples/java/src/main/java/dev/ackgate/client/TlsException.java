package dev.ackgate.client;

import io.grpc.Status;
import java.time.Duration;

/**
 * TLS did not come about, and would not if it were tried again: the gateway's certificate is of no
 * trusted authority, for another name or out of its time, the gateway did not take this side's
 * certificate or wanted one, or what listens there does not speak TLS. The message says which, and
 * what to do.
 */
public final class TlsException extends AckgateException {
  private static final long serialVersionUID = 1;

  TlsException(String message, Throwable cause) {
    super(Status.Code.UNAVAILABLE, "", message, Duration.ZERO, cause);
  }

  /** Never: it would be so again. */
  @Override
  public boolean isRetryable() {
    return false;
  }
}
