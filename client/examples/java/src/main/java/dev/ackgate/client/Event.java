package dev.ackgate.client;

import dev.ackgate.v1.VerdictResult;
import java.time.Duration;

/**
 * What happens to a subscriber, as its listener is told. Offsets are of records that follow each
 * other, both included.
 */
public sealed interface Event {
  /**
   * A stream is open.
   *
   * @param session its name in the gateway's log
   * @param subscriberId the subscriber's name, given or made by the gateway
   * @param kept how many runs of records in hand were kept over a reconnect
   */
  record Opened(String session, String subscriberId, int kept) implements Event {}

  /** The stream was lost, or could not be opened, and is tried again in a while. */
  record Disconnected(AckgateException error, Duration retryIn) implements Event {}

  /**
   * The gateway ends the stream soon: the subscriber finishes what it has and connects again.
   *
   * @param reason {@code GATEWAY_STOPS}, {@code CONNECTION_AGE}, or empty if it is another one
   */
  record Drained(String reason) implements Event {}

  /** A verdict was handed to the stream. */
  record Settled(
      String topic, int partition, long firstOffset, long lastOffset, int attempt, int delivery, Outcome outcome)
      implements Event {}

  /**
   * A verdict changed nothing.
   *
   * @param topic empty if the lane is not remembered; {@code partition} is -1 then
   * @param detail a stable code, for {@code INVALID}
   */
  record Problem(String topic, int partition, long firstOffset, long lastOffset, Kind kind, String detail)
      implements Event {}

  /** What became of a verdict that changed nothing. */
  enum Kind {
    /** The same verdict was already applied. */
    DUPLICATE,
    /** Another verdict was applied before. */
    CONFLICT,
    /** The delivery has been superseded by a later one. */
    STALE,
    /** The partition is no longer the gateway's or this subscriber's. */
    FENCED,
    /** The offset was not delivered to this subscriber. */
    UNKNOWN,
    /** The deadline passed and the record has been handed out again. */
    EXPIRED,
    /** The verdict is malformed. */
    INVALID,
    /** The delivery was not kept over a reconnect: the verdict was not sent, and the record comes again. */
    LOST,
    /** A kind that this version does not know. */
    OTHER;

    static Kind of(VerdictResult result) {
      return switch (result) {
        case VERDICT_RESULT_DUPLICATE -> DUPLICATE;
        case VERDICT_RESULT_CONFLICT -> CONFLICT;
        case VERDICT_RESULT_STALE -> STALE;
        case VERDICT_RESULT_FENCED -> FENCED;
        case VERDICT_RESULT_UNKNOWN -> UNKNOWN;
        case VERDICT_RESULT_EXPIRED -> EXPIRED;
        case VERDICT_RESULT_INVALID -> INVALID;
        case VERDICT_RESULT_UNSPECIFIED, UNRECOGNIZED -> OTHER;
      };
    }
  }
}
