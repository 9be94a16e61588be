package dev.ackgate.client;

import dev.ackgate.v1.Redelivery;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Records of one partition, in offset order, that came in one message. Answer all that is left of it
 * with one of its methods, or its deliveries one by one. Offsets may have gaps, which need no
 * verdict.
 */
public final class Batch {
  private final Settler settler;
  private final List<Delivery> deliveries;

  Batch(Settler settler, List<Delivery> deliveries) {
    this.settler = settler;
    this.deliveries = List.copyOf(deliveries);
  }

  /** Reads a message; the lane is the one that it came in. */
  static Batch of(Settler settler, Lane lane, dev.ackgate.v1.Batch wire) {
    List<Redelivery> again = new ArrayList<>(wire.getRedeliveriesList());
    again.sort(Comparator.comparingLong(Redelivery::getFirstOffset));
    List<Delivery> deliveries = new ArrayList<>(wire.getRecordsCount());
    Map<Long, TraceContext> traces = new HashMap<>();
    wire.getTracesList()
        .forEach(
            trace ->
                TraceContext.parse(trace.getTraceparent(), trace.getTracestate())
                    .ifPresent(context -> traces.put(trace.getOffset(), context)));
    int at = 0;
    for (var record : wire.getRecordsList()) {
      long offset = record.getOffset();
      while (at < again.size() && again.get(at).getLastOffset() < offset) {
        at++;
      }
      boolean isAgain = at < again.size() && again.get(at).getFirstOffset() <= offset;
      int attempt = isAgain ? again.get(at).getAttempt() : 1;
      int delivery = isAgain ? again.get(at).getDelivery() : 1;
      deliveries.add(new Delivery(settler, lane, record, attempt, delivery, traces.get(offset)));
    }
    return new Batch(settler, deliveries);
  }

  /** Returns its records; at least one. */
  public List<Delivery> deliveries() {
    return deliveries;
  }

  /** Returns the topic of every record. */
  public String topic() {
    return deliveries.get(0).topic();
  }

  /** Returns the partition of every record. */
  public int partition() {
    return deliveries.get(0).partition();
  }

  /** Says that all are done. */
  public void ackAll() {
    answer(Verdict.ACKED, true);
  }

  /** Refuses all for good. */
  public void rejectAll(String code, String reason) {
    answer(Verdict.rejected(code, reason), true);
  }

  /** Fails all; see {@link Delivery#fail}. */
  public void failAll(String code, String reason) {
    answer(Verdict.failed(code, reason, null), true);
  }

  /** Fails all; see {@link Delivery#failAfter}. */
  public void failAllAfter(String code, String reason, Duration delay) {
    answer(Verdict.failed(code, reason, delay), true);
  }

  /** Gives all back untouched. */
  public void releaseAll() {
    answer(Verdict.RELEASED, true);
  }

  /** Asks for more time for all; see {@link Delivery#extend}. */
  public void extend(Duration by) {
    settler.extend(runs(deliveries), by);
  }

  /** Answers what is left: a handful of numbers. tell: a verdict that comes too late is a problem. */
  void answer(Verdict verdict, boolean tell) {
    List<Delivery> left = deliveries.stream().filter(Delivery::claim).toList();
    runs(left).forEach(run -> settler.answer(run, verdict, tell));
  }

  /** The longest runs of records whose offsets follow each other. */
  List<Run> runs() {
    return runs(deliveries);
  }

  private static List<Run> runs(List<Delivery> deliveries) {
    List<Run> runs = new ArrayList<>();
    deliveries.forEach(delivery -> Run.append(runs, delivery.run()));
    return runs;
  }
}
