package dev.ackgate.client;

/**
 * Counts since a subscriber was opened, over all its sessions; not taken at one instant.
 *
 * @param records received, redeliveries included
 * @param batches received
 * @param acked records whose acked verdict was handed to the stream
 * @param rejected the same for rejected
 * @param failed the same for failed
 * @param released the same for released
 * @param lost records whose verdict was not sent, since the gateway hands them out again
 * @param problems records whose verdict the gateway says changed nothing
 * @param discarded records that were received and never begun, as their session ended
 * @param refused records for which the gateway gave no more time
 * @param reconnects sessions after the first one
 */
public record Stats(
    long records,
    long batches,
    long acked,
    long rejected,
    long failed,
    long released,
    long lost,
    long problems,
    long discarded,
    long refused,
    long reconnects) {}
