package dev.ackgate.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Receives records of one subscription and answers them. It connects again by itself; what it throws
 * is what trying again does not help. Take records with {@link #run}, {@link #runBatches}, {@link
 * #receive} or {@link #receiveBatch}; close it, whatever happened.
 *
 * <p>It reads ahead up to its credit. All methods can be called from any thread.
 */
public final class Subscriber implements AutoCloseable {
  /** Time beyond the close timeout for the subscriber's thread to come to an end. */
  private static final Duration CLOSE_SLACK = Duration.ofSeconds(15);

  /** The longest wait of a caller without a deadline. */
  private static final long FOREVER = TimeUnit.DAYS.toNanos(365);

  private final Options options;
  private final Sessions sessions;
  private volatile boolean reported;

  private Subscriber(Options options, Sessions sessions) {
    this.options = options;
    this.sessions = sessions;
  }

  /** Describes a subscriber of {@code subscription} at the gateway {@code address}: {@code HOST:PORT}, {@code http://} or {@code https://} before it. */
  public static Options builder(String address, String subscription) {
    return builder(List.of(address), subscription);
  }

  /**
   * As {@link #builder(String, String)}, for 1 to 64 gateways, tried in turn. It has a stream to one at
   * a time; what is in hand over a lost connection is asked for where it came from, before the next
   * one is tried.
   */
  public static Options builder(List<String> addresses, String subscription) {
    return new Options(addresses, subscription);
  }

  /**
   * Describes a subscriber of 1 to 100 {@code topics} with the consumer {@code group}, where the
   * gateway's configuration does not name such a subscription, but allows it. Subscribers with the
   * same cluster, group and set of topics share it, whatever the order.
   */
  public static Options adHoc(List<String> addresses, String cluster, List<String> topics, String group) {
    return new Options(addresses, cluster, topics, group);
  }

  static Subscriber start(Options options, Gateways gateways) throws InterruptedException {
    Sessions sessions = new Sessions(options, gateways);
    sessions.open();
    return new Subscriber(options, sessions);
  }

  /**
   * Waits for the next record, to be answered by the delivery's methods; empty when there is nothing
   * more. Nothing extends its deadline but its own {@code extend}.
   *
   * @throws AckgateException the subscriber has given up
   */
  public Optional<Delivery> receive() throws InterruptedException {
    try {
      return Optional.ofNullable(take(FOREVER, true, true)).map(deliveries -> deliveries.get(0));
    } catch (TimeoutException e) {
      return Optional.empty();
    }
  }

  /** As {@link #receive()}, but waits no longer than {@code timeout}. */
  public Optional<Delivery> receive(Duration timeout) throws InterruptedException, TimeoutException {
    return Optional.ofNullable(take(timeout.toNanos(), true, true)).map(deliveries -> deliveries.get(0));
  }

  /** As {@link #receive()}, with the next batch, or what is left of one. */
  public Optional<Batch> receiveBatch() throws InterruptedException {
    try {
      return Optional.ofNullable(take(FOREVER, false, true)).map(deliveries -> new Batch(sessions.settler, deliveries));
    } catch (TimeoutException e) {
      return Optional.empty();
    }
  }

  /** As {@link #receiveBatch()}, but waits no longer than {@code timeout}. */
  public Optional<Batch> receiveBatch(Duration timeout) throws InterruptedException, TimeoutException {
    return Optional.ofNullable(take(timeout.toNanos(), false, true)).map(deliveries -> new Batch(sessions.settler, deliveries));
  }

  /**
   * Takes one record or all that are left of a batch, and that are still the program's: what a broken
   * session brought counts only if the next one keeps it. Null at the end, which is awaited if
   * {@code untilDone} is set.
   */
  private List<Delivery> take(long nanos, boolean one, boolean untilDone) throws InterruptedException, TimeoutException {
    long until = System.nanoTime() + nanos;
    while (true) {
      List<Delivery> batch = sessions.intake.take(until - System.nanoTime());
      if (batch == null) {
        if (!sessions.intake.isOver()) {
          throw new TimeoutException("no record within the time");
        }
        if (!untilDone) {
          return null;
        }
        if (!sessions.awaitDone(Duration.ofNanos(Math.max(0, until - System.nanoTime())))) {
          throw new TimeoutException("no end within the time");
        }
        if (sessions.error() != null) {
          reported = true;
          throw sessions.error();
        }
        return null;
      }
      List<Delivery> taken = new ArrayList<>();
      int at = 0;
      while (at < batch.size() && !(one && !taken.isEmpty())) {
        Boolean held = isHeld(batch.get(at));
        if (held == null) {
          break;
        }
        if (held) {
          taken.add(batch.get(at));
        } else {
          sessions.counters.discarded.increment();
        }
        at++;
      }
      List<Delivery> rest = batch.subList(at, batch.size());
      if (!sessions.intake.putBack(rest)) {
        sessions.discard(rest);
      }
      if (!taken.isEmpty()) {
        return taken;
      }
    }
  }

  /** Looks again from time to time, as the subscriber may be closed meanwhile. */
  private Boolean isHeld(Delivery delivery) throws InterruptedException {
    return sessions.settler.isHeld(delivery.run(), TimeUnit.MILLISECONDS.toNanos(100));
  }

  /**
   * Calls {@code handler} for each record, up to {@code concurrency} (at least 1) at a time, and
   * extends deadlines while records are in hand. Returns after {@link #stop} or {@link #close}, once
   * everything begun was answered and sent; or, with {@code untilDrained}, when there is nothing
   * left. The subscriber is closed then.
   *
   * @throws AckgateException the subscriber gave up, or the last verdicts may not count
   * @throws InterruptedException this thread was interrupted; the subscriber is closed as by {@link #stop}
   */
  public void run(int concurrency, Handler handler) throws InterruptedException {
    new Workers(this, options, concurrency).run(null, () -> work(handler));
  }

  /** As {@link #run(int, Handler)}, on threads of {@code executor}, which must have that many to spare. */
  public void run(Executor executor, int concurrency, Handler handler) throws InterruptedException {
    new Workers(this, options, concurrency).run(executor, () -> work(handler));
  }

  /** As {@link #run(int, Handler)}, with whole batches. */
  public void runBatches(int concurrency, BatchHandler handler) throws InterruptedException {
    new Workers(this, options, concurrency).run(null, () -> workBatch(handler));
  }

  private List<Delivery> takeSome(boolean one) throws InterruptedException {
    try {
      return take(FOREVER, one, false);
    } catch (TimeoutException e) {
      return null;
    }
  }

  private boolean work(Handler handler) throws InterruptedException {
    List<Delivery> taken = takeSome(true);
    if (taken == null) {
      return false;
    }
    Delivery delivery = taken.get(0);
    Throwable thrown = null;
    try {
      handler.handle(delivery);
    } catch (Throwable e) {
      thrown = e;
    }
    delivery.answer(Verdict.of(thrown));
    return true;
  }

  private boolean workBatch(BatchHandler handler) throws InterruptedException {
    List<Delivery> taken = takeSome(false);
    if (taken == null) {
      return false;
    }
    Batch batch = new Batch(sessions.settler, taken);
    Throwable thrown = null;
    try {
      handler.handle(batch);
    } catch (Throwable e) {
      thrown = e;
    }
    batch.answer(Verdict.of(thrown), true);
    return true;
  }

  void setExtending(boolean extending) {
    sessions.setExtending(extending);
  }

  /** Begins a graceful end without waiting: nothing new is taken, what was not begun is given back, and {@code run} comes to its end. */
  public void stop() {
    sessions.leave();
  }

  void awaitLeaving() throws InterruptedException {
    sessions.awaitLeaving();
  }

  boolean isDone() {
    return sessions.isDone();
  }

  /**
   * Says goodbye: verdicts given so far are sent, what was not begun is given back, and what is still
   * in hand is released, so answer it first. Waits for the gateway to end the stream. Calling it again
   * does no harm.
   *
   * @throws AckgateException the last verdicts may not count; not again if it was thrown before
   */
  @Override
  public void close() {
    sessions.close();
    boolean ended = false;
    try {
      ended = sessions.awaitDone(options.closeTimeout.plus(CLOSE_SLACK));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (reported) {
      return;
    }
    reported = true;
    if (ended && sessions.error() != null) {
      throw sessions.error();
    }
    if (!ended) {
      throw new AckgateException(Status.Code.DEADLINE_EXCEEDED, "the subscriber did not end in time");
    }
  }

  /** Returns the counts so far. */
  public Stats stats() {
    return sessions.counters.snapshot();
  }

  /** Returns the subscriber's name, given or made by the gateway. */
  public String subscriberId() {
    return sessions.subscriberId();
  }

  /** Returns where the stream is, or is tried next, as it was given. */
  public String address() {
    return sessions.address();
  }
}
