package dev.ackgate.client;

import dev.ackgate.v1.Record;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One hand-over of a record. From {@link Subscriber#receive} it is to be answered with one of its
 * methods, from any thread; in a handler how that ends answers it. Of several answers the first
 * counts.
 */
public final class Delivery {
  private final Settler settler;
  private final Run run;
  private final Record record;
  private final AtomicBoolean answered = new AtomicBoolean();

  /** The gateway's own span of it; null if there is none. */
  private final TraceContext trace;

  Delivery(Settler settler, Lane lane, Record record, int attempt, int delivery, TraceContext trace) {
    this.trace = trace;
    this.settler = settler;
    this.record = record;
    this.run = new Run(new Run.HandOver(lane, delivery, attempt), record.getOffset(), record.getOffset());
  }

  /** Says that the record is done. */
  public void ack() {
    answer(Verdict.ACKED);
  }

  /**
   * As {@link #ack}; what it returns is done once the verdict survives the loss of the gateway, or
   * fails with a {@link NotDurableException}. Needs {@link Confirm#DURABLE}. The verdict is given at
   * once, whether it is waited for or not.
   */
  public CompletableFuture<Void> ackDurably() {
    return answerDurably(Verdict.ACKED);
  }

  /** As {@link #reject} and {@link #ackDurably}: also its dead letter is safe then. */
  public CompletableFuture<Void> rejectDurably(String code, String reason) {
    return answerDurably(Verdict.rejected(code, reason));
  }

  /** Refuses the record for good: it becomes a dead letter now. */
  public void reject(String code, String reason) {
    answer(Verdict.rejected(code, reason));
  }

  /** Says that it did not work this time: again after the gateway's backoff. Uses an attempt. */
  public void fail(String code, String reason) {
    answer(Verdict.failed(code, reason, null));
  }

  /** As {@link #fail}, not before {@code delay} (at most an hour) in place of the backoff. */
  public void failAfter(String code, String reason, Duration delay) {
    answer(Verdict.failed(code, reason, delay));
  }

  /** Gives the record back untouched. Uses no attempt. */
  public void release() {
    answer(Verdict.RELEASED);
  }

  /**
   * Says that work goes on: the deadline for the verdict becomes now plus {@code by}, above 0 and at
   * most 10 minutes (more is cut), an hour in total. In a handler this happens by itself.
   */
  public void extend(Duration by) {
    settler.extend(List.of(run), by);
  }

  private CompletableFuture<Void> answerDurably(Verdict verdict) {
    return claim() ? settler.answerDurably(run, verdict) : Settler.over("the record was answered before");
  }

  void answer(Verdict verdict) {
    if (claim()) {
      settler.answer(run, verdict, true);
    }
  }

  /** Returns whether nobody has answered it yet, which from now on somebody has. */
  boolean claim() {
    return answered.compareAndSet(false, true);
  }

  Run run() {
    return run;
  }

  /** Returns the record's topic. */
  public String topic() {
    return run.lane().topic;
  }

  /** Returns the record's partition. */
  public int partition() {
    return run.lane().partition;
  }

  /** Returns the number of the partition's history: a reset starts a new one. */
  public long epoch() {
    return run.lane().epoch;
  }

  /** Returns the record's position in its partition. */
  public long offset() {
    return run.first();
  }

  /** Returns which attempt this is: 1 plus the failed verdicts and expiries so far. */
  public int attempt() {
    return run.of().attempt();
  }

  /** Returns which delivery this is: 1 plus the earlier hand-overs. */
  public int deliveryNumber() {
    return run.of().delivery();
  }

  /** Returns the key; null is Kafka's null, and an empty key is empty. */
  public byte[] key() {
    return record.hasKey() ? record.getKey().toByteArray() : null;
  }

  /** Returns the value; null is Kafka's null (a tombstone), and an empty value is empty. */
  public byte[] value() {
    return record.hasValue() ? record.getValue().toByteArray() : null;
  }

  /** Returns all headers in the record's order. */
  public List<Header> headers() {
    List<Header> headers = new ArrayList<>(record.getHeadersCount());
    record.getHeadersList().forEach(header -> headers.add(header(header)));
    return Collections.unmodifiableList(headers);
  }

  /** Returns the last header of this name. */
  public Optional<Header> header(String name) {
    for (int i = record.getHeadersCount() - 1; i >= 0; i--) {
      if (record.getHeaders(i).getKey().equals(name)) {
        return Optional.of(header(record.getHeaders(i)));
      }
    }
    return Optional.empty();
  }

  /**
   * Returns what work on the record continues: the gateway's span, if it traces the record, else what
   * its producer wrote into its headers; empty if that is nothing valid.
   */
  public Optional<TraceContext> traceContext() {
    return trace != null ? Optional.of(trace) : TraceContext.of(headers());
  }

  private static Header header(dev.ackgate.v1.Header wire) {
    return new Header(wire.getKey(), wire.hasValue() ? wire.getValue().toByteArray() : null);
  }

  /** Returns the timestamp in milliseconds since the Unix epoch; 0 if there is none. */
  public long timestampMillis() {
    return record.getTimestampMs();
  }

  /** Returns the timestamp, by the producer's clock or the broker's. */
  public Optional<Instant> timestamp() {
    return switch (record.getTimestampType()) {
      case TIMESTAMP_TYPE_CREATE_TIME, TIMESTAMP_TYPE_LOG_APPEND_TIME ->
          Optional.of(Instant.ofEpochMilli(record.getTimestampMs()));
      default -> Optional.empty();
    };
  }

  /** Without key, value and headers: they do not belong in logs. */
  @Override
  public String toString() {
    return topic() + "/" + partition() + "@" + offset() + " attempt " + attempt() + " delivery " + deliveryNumber();
  }
}
