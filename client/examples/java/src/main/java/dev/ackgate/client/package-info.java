/**
 * Subscribes to Kafka records through an ackgate gateway: no consumer group, no rebalance listener,
 * no offsets. A {@link dev.ackgate.client.Handler} gets one record at a time, how it ends is the
 * verdict on it, and the verdicts alone decide what the gateway commits.
 *
 * <pre>{@code
 * try (var orders = Subscriber.builder("127.0.0.1:7654", "orders").open()) {
 *   orders.run(8, delivery -> {
 *     if (delivery.value() == null) {
 *       throw new RejectException("empty", "an order has a value"); // a dead letter, now
 *     }
 *     store(delivery.value());
 *   });
 * }
 * }</pre>
 *
 * <table>
 *   <caption>Verdicts</caption>
 *   <tr><th>how the handler ends</th><th>verdict</th><th>uses an attempt</th></tr>
 *   <tr><td>returns</td><td>acked: done</td><td>no</td></tr>
 *   <tr><td>{@link dev.ackgate.client.RejectException}</td><td>rejected: a dead letter, now</td><td>no</td></tr>
 *   <tr><td>{@link dev.ackgate.client.RetryException}</td><td>failed: again, not before its delay</td><td>yes</td></tr>
 *   <tr><td>{@link dev.ackgate.client.ReleaseException}</td><td>released: again at once, elsewhere</td><td>no</td></tr>
 *   <tr><td>anything else thrown</td><td>failed: again after the gateway's backoff</td><td>yes</td></tr>
 * </table>
 *
 * <p>A record that was acked counts as done once the gateway has the ack; if the connection or the
 * gateway is lost before, it is delivered again. So a record can come more than once: topic,
 * partition and offset tell it apart. A subscriber connects again by itself. If only the connection
 * was lost, and for less than the gateway's {@code resume_grace}, what is in hand stays valid; a
 * verdict on what the gateway did not keep is dropped and told as a {@link
 * dev.ackgate.client.Event.Problem} of kind {@code LOST}.
 */
package dev.ackgate.client;
