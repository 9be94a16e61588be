package dev.ackgate.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;

/** Why a stream could not be opened, or why it ended for good. */
public sealed class AckgateException extends RuntimeException permits TlsException {
  private static final long serialVersionUID = 1;

  /** Longest wait that a gateway can ask for. */
  private static final Duration MAX_RETRY_AFTER = Duration.ofMinutes(1);

  /** The gateway's reason for ending a stream whose place another one took. */
  static final String SUPERSEDED = "SUPERSEDED";

  private final Status.Code code;
  private final String reason;
  private final Duration retryAfter;
  private volatile String address = "";

  AckgateException(Status.Code code, String reason, String message, Duration retryAfter, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.reason = reason;
    this.retryAfter = retryAfter;
  }

  AckgateException(Status.Code code, String message) {
    this(code, "", message, Duration.ZERO, null);
  }

  /** An option is out of its range; nothing was sent. */
  static AckgateException invalid(String message) {
    return new AckgateException(Status.Code.INVALID_ARGUMENT, message);
  }

  /** Reads a gRPC error with its {@code google.rpc} details. */
  static AckgateException of(Throwable error) {
    if (error instanceof AckgateException known) {
      return known;
    }
    Status status = Status.fromThrowable(error);
    StringBuilder message = new StringBuilder(described(status));
    String reason = "";
    Duration retryAfter = Duration.ZERO;
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details != null) {
      for (Any detail : details.getDetailsList()) {
        try {
          if (detail.is(ErrorInfo.class)) {
            reason = detail.unpack(ErrorInfo.class).getReason();
          } else if (detail.is(RetryInfo.class)) {
            var delay = detail.unpack(RetryInfo.class).getRetryDelay();
            retryAfter = bounded(Duration.ofSeconds(delay.getSeconds(), delay.getNanos()));
          } else if (detail.is(BadRequest.class)) {
            for (var violation : detail.unpack(BadRequest.class).getFieldViolationsList()) {
              String said = violation.getField() + ": " + violation.getDescription();
              // The gateway's own messages say it already.
              if (message.indexOf(said) < 0) {
                message.append("; ").append(said);
              }
            }
          }
        } catch (InvalidProtocolBufferException e) {
          // A detail that cannot be read adds nothing; code and message stand.
          continue;
        }
      }
    }
    return new AckgateException(status.getCode(), reason, message.toString(), retryAfter, error);
  }

  /** The status in words; what the transport says stands in the causes. */
  private static String described(Status status) {
    StringBuilder text = new StringBuilder(status.getDescription() == null ? "" : status.getDescription());
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      String said = cause.getMessage();
      if (said != null && text.indexOf(said) < 0) {
        text.append(text.isEmpty() ? "" : ": ").append(said);
      }
    }
    return text.isEmpty() ? status.getCode().name() : text.toString();
  }

  private static Duration bounded(Duration asked) {
    if (asked.isNegative()) {
      return Duration.ZERO;
    }
    return asked.compareTo(MAX_RETRY_AFTER) > 0 ? MAX_RETRY_AFTER : asked;
  }

  /** Returns the gRPC code; of what went wrong on this side, the nearest one. */
  public Status.Code code() {
    return code;
  }

  /** Returns the gateway's stable reason code; empty if the gateway gave none. */
  public String reason() {
    return reason;
  }

  /** Returns the least time to wait before another try, at most a minute; zero: not given. */
  public Duration retryAfter() {
    return retryAfter;
  }

  /** Returns the gateway's address, as it was given; empty if it is not known. */
  public String address() {
    return address;
  }

  /** Says where it was. */
  AckgateException at(String gateway) {
    address = gateway;
    return this;
  }

  /**
   * Returns whether the same can succeed later without anybody changing options or configuration. A
   * {@link Subscriber} tries such again by itself.
   */
  public boolean isRetryable() {
    // Another stream of this name took its place: the two would take turns.
    if (reason.equals(SUPERSEDED)) {
      return false;
    }
    return switch (code) {
      case INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED, FAILED_PRECONDITION, OUT_OF_RANGE,
          UNIMPLEMENTED -> false;
      default -> true;
    };
  }

  @Override
  public String toString() {
    return "ackgate: " + code + (reason.isEmpty() ? "" : " (" + reason + ")") + ": " + getMessage();
  }
}
