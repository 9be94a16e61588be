package dev.ackgate.client;

import com.google.protobuf.Timestamp;
import dev.ackgate.v1.Delivery;
import dev.ackgate.v1.OnReject;
import dev.ackgate.v1.StartEarliest;
import dev.ackgate.v1.StartFail;
import dev.ackgate.v1.StartLatest;
import java.time.Duration;
import java.time.Instant;

/**
 * What a subscription is to be like, in the configuration's own terms. What is not set asks for
 * nothing. They shape an ad hoc subscription that is opened for the first time; of any other the
 * gateway refuses the stream ({@code OPTIONS_CONTRADICT}) if it is otherwise.
 */
public final class SubscriptionOptions {
  /** How records may overtake each other. */
  public enum Order {
    /** Freely: only a failed record itself waits. */
    NONE,
    /** No record overtakes an earlier one with the same key. */
    KEY,
    /** Nothing of a partition overtakes it. */
    LANE
  }

  /** What happens to rejected and exhausted records. */
  public enum Rejected {
    /** They are written to the dead-letter topic. */
    DEAD_LETTER,
    /** They are dropped. */
    DROP,
    /** The lane holds until an operator acts. */
    HOLD
  }

  private final dev.ackgate.v1.SubscriptionOptions.Builder wire = dev.ackgate.v1.SubscriptionOptions.newBuilder();

  /** Each record goes to every subscriber, or else to one of them. */
  public SubscriptionOptions broadcast(boolean broadcast) {
    wire.setDelivery(broadcast ? Delivery.DELIVERY_BROADCAST : Delivery.DELIVERY_COMPETING);
    return this;
  }

  /** Sets how records may overtake each other. */
  public SubscriptionOptions order(Order order) {
    wire.setOrder(
        switch (order) {
          case NONE -> dev.ackgate.v1.Order.ORDER_NONE;
          case KEY -> dev.ackgate.v1.Order.ORDER_KEY;
          case LANE -> dev.ackgate.v1.Order.ORDER_LANE;
        });
    return this;
  }

  /** A group without a committed offset begins at the oldest record. */
  public SubscriptionOptions startEarliest() {
    wire.getStartBuilder().setEarliest(StartEarliest.getDefaultInstance());
    return this;
  }

  /** A group without a committed offset begins at the end. */
  public SubscriptionOptions startLatest() {
    wire.getStartBuilder().setLatest(StartLatest.getDefaultInstance());
    return this;
  }

  /** A group without a committed offset begins at the first record at or after a time. */
  public SubscriptionOptions startAt(Instant time) {
    wire.getStartBuilder().setTimestamp(Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()));
    return this;
  }

  /** A group without a committed offset waits until an operator commits one. */
  public SubscriptionOptions startFail() {
    wire.getStartBuilder().setFail(StartFail.getDefaultInstance());
    return this;
  }

  /** Sets the time for a verdict: 100 ms to 1 h. */
  public SubscriptionOptions ackDeadline(Duration deadline) {
    Options.check(Options.within(deadline, Duration.ofMillis(100), Duration.ofHours(1)), "ackDeadline: 100 ms to 1 h");
    wire.setAckDeadline(Verdict.wire(deadline));
    return this;
  }

  /** Sets after how many failures a record is exhausted: 1 to 1000. */
  public SubscriptionOptions maxAttempts(int attempts) {
    Options.check(attempts >= 1 && attempts <= 1_000, "maxAttempts: 1 to 1000");
    wire.setMaxAttempts(attempts);
    return this;
  }

  /** Sets after how many hand-overs a record is exhausted: 1 to 1000. */
  public SubscriptionOptions maxDeliveries(int deliveries) {
    Options.check(deliveries >= 1 && deliveries <= 1_000, "maxDeliveries: 1 to 1000");
    wire.setMaxDeliveries(deliveries);
    return this;
  }

  /** Sets what happens to rejected and exhausted records. */
  public SubscriptionOptions onReject(Rejected rejected) {
    wire.setOnReject(
        switch (rejected) {
          case DEAD_LETTER -> OnReject.ON_REJECT_DEAD_LETTER;
          case DROP -> OnReject.ON_REJECT_DROP;
          case HOLD -> OnReject.ON_REJECT_HOLD;
        });
    return this;
  }

  /** Sets where they go with {@link Rejected#DEAD_LETTER}. */
  public SubscriptionOptions deadLetterTopic(String topic) {
    wire.setDeadLetterTopic(topic);
    return this;
  }

  /** Sets what is read at all, in CEL. */
  public SubscriptionOptions filter(String expression) {
    wire.setFilter(expression);
    return this;
  }

  /** Holds younger records back: 0 to 30 days. */
  public SubscriptionOptions minAge(Duration age) {
    Options.check(Options.within(age, Duration.ZERO, Duration.ofDays(30)), "minAge: 0 to 30 days");
    wire.setMinAge(Verdict.wire(age));
    return this;
  }

  dev.ackgate.v1.SubscriptionOptions wire() {
    return wire.build();
  }
}
