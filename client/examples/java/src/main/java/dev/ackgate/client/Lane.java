package dev.ackgate.client;

/**
 * One partition as the program's records came in. Its identity stays over a reconnect where the
 * gateway keeps something of it.
 */
final class Lane {
  final String topic;
  final int partition;
  final long epoch;

  /** How the open session names it. Guarded by the settler's lock. */
  long id;

  Lane(String topic, int partition, long epoch, long id) {
    this.topic = topic;
    this.partition = partition;
    this.epoch = epoch;
    this.id = id;
  }

  /** A topic's partition, in either epoch. */
  record Partition(String topic, int number) {}

  Partition partitionOf() {
    return new Partition(topic, partition);
  }
}
