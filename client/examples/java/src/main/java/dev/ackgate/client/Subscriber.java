package dev.ackgate.client;

import dev.ackgate.v1.Credit;
import dev.ackgate.v1.Open;
import dev.ackgate.v1.Opened;
import dev.ackgate.v1.Resume;
import dev.ackgate.v1.VerdictAnswer;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/**
 * Receives records of one subscription and answers them. It connects again by itself; what it throws
 * is what trying again does not help. Take records with {@link #run}, {@link #runBatches}, {@link
 * #receive} or {@link #receiveBatch}; close it, whatever happened.
 *
 * <p>It reads ahead up to its credit. All methods can be called from any thread.
 */
public final class Subscriber implements AutoCloseable {
  /** What ends a stream that the program closed before it was open. */
  static final AckgateException CLOSED = new AckgateException(Status.Code.CANCELLED, "the subscriber was closed");

  /** Time beyond the close timeout for the subscriber's thread to come to an end. */
  private static final Duration CLOSE_SLACK = Duration.ofSeconds(15);

  private final Options options;
  private final Connection connection;
  private final Counters counters = new Counters();
  private final Settler settler = new Settler(this::lost);
  private final Intake intake;
  private final CountDownLatch ready = new CountDownLatch(1);

  /** Nothing new is taken: the end is near. */
  private final CountDownLatch leaving = new CountDownLatch(1);

  /** Say goodbye now. */
  private final CountDownLatch closing = new CountDownLatch(1);

  /** The last session has ended; {@code error} is then set, or null. */
  private final CountDownLatch done = new CountDownLatch(1);

  private volatile AckgateException error;
  private volatile boolean extending;
  private volatile boolean reported;

  // Of the latest session; guarded by this.
  private String session = "";
  private String subscriberId = "";
  private String token = "";

  private Subscriber(Options options, Connection connection) {
    this.options = options;
    this.connection = connection;
    this.intake = new Intake(options.creditRecords);
  }

  /** Describes a subscriber of {@code subscription} at the gateway {@code address}: {@code HOST:PORT}, {@code http://} or {@code https://} before it. */
  public static Options builder(String address, String subscription) {
    return new Options(address, subscription);
  }

  static Subscriber start(Options options, Connection connection) throws InterruptedException {
    Subscriber subscriber = new Subscriber(options, connection);
    Thread thread = new Thread(subscriber::keep, "ackgate-" + options.subscription);
    thread.setDaemon(true);
    thread.start();
    try {
      subscriber.ready.await();
    } catch (InterruptedException e) {
      subscriber.leave();
      subscriber.closing.countDown();
      throw e;
    }
    if (subscriber.session().isEmpty() && subscriber.error != null) {
      throw subscriber.error;
    }
    return subscriber;
  }

  /** Keeps subscribed until it is closed, an error comes that trying again does not help, or the tries are used up. */
  private void keep() {
    AckgateException last = null;
    try {
      last = sessions();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      last = CLOSED;
    } catch (RuntimeException | Error e) {
      last = new AckgateException(Status.Code.INTERNAL, "", e.toString(), Duration.ZERO, e);
    } finally {
      error = last;
      // Nothing is gone on with: what is in hand does not count any more.
      counters.lost.add(settler.end(false));
      discard(intake.end());
      leaving.countDown();
      done.countDown();
      ready.countDown();
    }
  }

  private AckgateException sessions() throws InterruptedException {
    Backoff tries = new Backoff(options.firstBackoff, options.maxBackoff);
    while (true) {
      Session.End end = new Session(this, options, settler).run(connection);
      if (end.error() == null && !end.drained()) {
        return null;
      }
      if (isClosing()) {
        return closedBy(end.error());
      }
      if (end.useful() || end.drained()) {
        tries.reset();
      }
      Duration delay;
      if (end.drained()) {
        forget();
        settler.end(false);
        delay = tries.next(Duration.ZERO);
      } else {
        if (!end.error().isRetryable() || tries.failures() >= options.maxRetries) {
          return end.error();
        }
        settler.end(isResumable());
        delay = tries.next(end.error().retryAfter());
        tell(new Event.Disconnected(end.error(), delay));
      }
      if (closing.await(delay.toNanos(), TimeUnit.NANOSECONDS)) {
        return closedBy(null);
      }
    }
  }

  /** What became of the goodbye when a session ended otherwise, or there was none. */
  private AckgateException closedBy(AckgateException lastError) {
    if (lastError != null && lastError != CLOSED) {
      return lastError;
    }
    return settler.isAnswered()
        ? null
        : new AckgateException(
            Status.Code.UNAVAILABLE, "closed while there was no stream: the last verdicts do not count");
  }

  /** What to begin with: anew, or where the last session broke. */
  synchronized Open openMessage() {
    Open.Builder open = options.message();
    if (leaving.getCount() == 0) {
      open.setCredit(Credit.getDefaultInstance());
    }
    open.setTakeover(options.takeover && session.isEmpty());
    if (!token.isEmpty()) {
      open.setSubscriberId(subscriberId);
      open.setResume(Resume.newBuilder().setToken(token).addAllHeld(settler.manifest()));
    }
    return open.build();
  }

  void opened(Opened first) {
    int kept = settler.begin(first.getResumedList());
    counters.sessions.increment();
    synchronized (this) {
      session = first.getSession();
      subscriberId = first.getSubscriberId();
      token = first.getResumeToken();
    }
    tell(new Event.Opened(first.getSession(), first.getSubscriberId(), kept));
    ready.countDown();
  }

  private synchronized void forget() {
    token = "";
  }

  private synchronized boolean isResumable() {
    return !token.isEmpty();
  }

  private synchronized String session() {
    return session;
  }

  /** Takes in a batch, waiting for room until {@code gone}. */
  void received(dev.ackgate.v1.Batch wire, BooleanSupplier gone) throws InterruptedException {
    Lane lane = settler.lane(wire.getLane(), wire.getTopic(), wire.getPartition(), wire.getEpoch());
    Batch batch = Batch.of(settler, lane, wire);
    counters.batches.increment();
    counters.records.add(batch.deliveries().size());
    settler.handed(batch.runs());
    if (!intake.put(batch.deliveries(), gone)) {
      discard(batch.deliveries());
    }
  }

  /** Reads the gateway's answer to verdicts or extensions. */
  void settled(dev.ackgate.v1.Settled message) {
    for (VerdictAnswer answer : message.getAnswersList()) {
      long first = answer.getFirstOffset();
      long last = answer.getLastOffset();
      if ((message.getSequence() & Writer.EXTEND_BIT) != 0) {
        counters.refused.add(last - first + 1);
        settler.refused(answer.getLane(), first, last);
        continue;
      }
      counters.problems.add(last - first + 1);
      Lane lane = settler.named(answer.getLane());
      tell(
          new Event.Problem(
              lane == null ? "" : lane.topic,
              lane == null ? -1 : lane.partition,
              first,
              last,
              Event.Kind.of(answer.getResult()),
              answer.getDetail()));
    }
  }

  private void lost(Run run) {
    counters.lost.add(run.length());
    tell(
        new Event.Problem(
            run.lane().topic, run.lane().partition, run.first(), run.last(), Event.Kind.LOST, ""));
  }

  void sent(Settler.Answered answered) {
    Run run = answered.run();
    Outcome outcome = answered.verdict().outcome();
    counters.of(outcome).add(run.length());
    tell(
        new Event.Settled(
            run.lane().topic,
            run.lane().partition,
            run.first(),
            run.last(),
            run.of().attempt(),
            run.of().delivery(),
            outcome));
  }

  void tell(Event event) {
    options.listener.accept(event);
  }

  boolean isClosing() {
    return closing.getCount() == 0;
  }

  boolean isExtending() {
    return extending;
  }

  /** Gives back what was received and not begun. */
  private void discard(List<Delivery> deliveries) {
    if (!deliveries.isEmpty()) {
      counters.discarded.add(deliveries.size());
      new Batch(settler, deliveries).answer(Verdict.RELEASED, false);
    }
  }

  /**
   * Waits for the next record, to be answered by the delivery's methods; empty when there is nothing
   * more. Nothing extends its deadline but its own {@code extend}.
   *
   * @throws AckgateException the subscriber has given up
   */
  public Optional<Delivery> receive() throws InterruptedException {
    try {
      return Optional.ofNullable(take(Settler.forever(), true, true)).map(deliveries -> deliveries.get(0));
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
      return Optional.ofNullable(take(Settler.forever(), false, true)).map(deliveries -> new Batch(settler, deliveries));
    } catch (TimeoutException e) {
      return Optional.empty();
    }
  }

  /** As {@link #receiveBatch()}, but waits no longer than {@code timeout}. */
  public Optional<Batch> receiveBatch(Duration timeout) throws InterruptedException, TimeoutException {
    return Optional.ofNullable(take(timeout.toNanos(), false, true)).map(deliveries -> new Batch(settler, deliveries));
  }

  /**
   * Takes one record or all that are left of a batch, and that are still the program's: what a broken
   * session brought counts only if the next one keeps it. Null at the end, which is awaited if
   * {@code untilDone} is set.
   */
  private List<Delivery> take(long nanos, boolean one, boolean untilDone) throws InterruptedException, TimeoutException {
    long until = System.nanoTime() + nanos;
    while (true) {
      List<Delivery> batch = intake.take(until - System.nanoTime());
      if (batch == null) {
        if (!intake.isOver()) {
          throw new TimeoutException("no record within the time");
        }
        if (!untilDone) {
          return null;
        }
        if (!done.await(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS)) {
          throw new TimeoutException("no end within the time");
        }
        if (error != null) {
          reported = true;
          throw error;
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
          counters.discarded.increment();
        }
        at++;
      }
      List<Delivery> rest = batch.subList(at, batch.size());
      if (!intake.putBack(rest)) {
        discard(rest);
      }
      if (!taken.isEmpty()) {
        return taken;
      }
    }
  }

  /** Looks again from time to time, as the subscriber may be closed meanwhile. */
  private Boolean isHeld(Delivery delivery) throws InterruptedException {
    return settler.isHeld(delivery.run(), TimeUnit.MILLISECONDS.toNanos(100));
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
      return take(Settler.forever(), one, false);
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
    Batch batch = new Batch(settler, taken);
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
    this.extending = extending;
  }

  /** Begins a graceful end without waiting: nothing new is taken, what was not begun is given back, and {@code run} comes to its end. */
  public void stop() {
    leave();
  }

  private void leave() {
    leaving.countDown();
    settler.setCredit(0, 0);
    discard(intake.end());
  }

  void awaitLeaving() throws InterruptedException {
    leaving.await();
  }

  boolean isDone() {
    return done.getCount() == 0;
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
    leave();
    closing.countDown();
    settler.nudge();
    boolean ended = false;
    try {
      ended = done.await(options.closeTimeout.plus(CLOSE_SLACK).toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (reported) {
      return;
    }
    reported = true;
    if (ended && error != null) {
      throw error;
    }
    if (!ended) {
      throw new AckgateException(Status.Code.DEADLINE_EXCEEDED, "the subscriber did not end in time");
    }
  }

  /** Returns the counts so far. */
  public Stats stats() {
    return counters.snapshot();
  }

  /** Returns the subscriber's name, given or made by the gateway. */
  public synchronized String subscriberId() {
    return subscriberId;
  }
}
