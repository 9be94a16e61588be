package dev.ackgate.client;

import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * What became of a record to write.
 *
 * @param partition where it was written; of one that was not, the partition it asked for
 * @param offset empty if it was not written
 * @param error empty if it was written, or the name of the reason, as {@code NOT_ALLOWED}
 * @param detail the same in words
 */
public record Written(String topic, OptionalInt partition, OptionalLong offset, String error, String detail) {
  /** Returns whether it was written. */
  public boolean isWritten() {
    return error.isEmpty();
  }
}
