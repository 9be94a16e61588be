package dev.ackgate.client;

/**
 * One header of a record. Names may repeat.
 *
 * @param name its name
 * @param value null for Kafka's null; an empty value is empty and not null
 */
public record Header(String name, byte[] value) {}
