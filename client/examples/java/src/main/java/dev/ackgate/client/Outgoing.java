package dev.ackgate.client;

import java.util.List;

/**
 * A record to write. Null and empty differ, in key, value and headers.
 *
 * @param topic where to; one that the gateway's configuration lets be written to
 * @param key null is Kafka's null
 * @param value null is Kafka's null (a tombstone)
 * @param headers in order, repeats kept
 * @param partition null: the one that the key decides
 */
public record Outgoing(String topic, byte[] key, byte[] value, List<Header> headers, Integer partition) {
  /** A record without key and headers. */
  public Outgoing(String topic, byte[] value) {
    this(topic, null, value, List.of(), null);
  }
}
