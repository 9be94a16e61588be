package dev.ackgate.client;

import dev.ackgate.v1.Credit;
import dev.ackgate.v1.Open;
import dev.ackgate.v1.Opened;
import dev.ackgate.v1.Resume;
import dev.ackgate.v1.VerdictAnswer;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * One session after the other, on a thread of its own, until the subscriber closes, an error comes
 * that trying again does not help, or the tries are used up; and what the sessions share.
 */
final class Sessions {
  /** What ends a stream that the program closed before it was open. */
  static final AckgateException CLOSED = new AckgateException(Status.Code.CANCELLED, "the subscriber was closed");

  private static final System.Logger LOG = System.getLogger("dev.ackgate.client");

  final Counters counters = new Counters();
  final Settler settler;
  final Intake intake;

  private final Options options;
  private final Gateways gateways;
  private final CountDownLatch ready = new CountDownLatch(1);

  /** Nothing new is taken: the end is near. */
  private final CountDownLatch leaving = new CountDownLatch(1);

  /** Say goodbye now. */
  private final CountDownLatch closing = new CountDownLatch(1);

  /** The last session has ended; {@code error} is then set, or null. */
  private final CountDownLatch done = new CountDownLatch(1);

  private volatile AckgateException error;
  private volatile boolean extending;

  // Of the latest session; guarded by this.
  private String session = "";
  private String subscriberId = "";
  private String token = "";

  Sessions(Options options, Gateways gateways) {
    this.options = options;
    this.gateways = gateways;
    this.settler = new Settler(this::lost, options.confirm == Confirm.DURABLE);
    this.intake = new Intake(options.creditRecords);
  }

  /** Begins, and waits until the first one is open or there will be none. */
  void open() throws InterruptedException {
    Thread thread = new Thread(this::keep, "ackgate-" + options.subscription);
    thread.setDaemon(true);
    thread.start();
    try {
      ready.await();
    } catch (InterruptedException e) {
      close();
      throw e;
    }
    synchronized (this) {
      if (session.isEmpty() && error != null) {
        throw error;
      }
    }
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
    Backoff tries = new Backoff(options.firstBackoff, options.maxBackoff, gateways.size());
    while (true) {
      Session.End end = new Session(this, options, settler).run(gateways.current());
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
        // An old connection is followed by a new one to the same gateway.
        if (end.stops()) {
          gateways.leave();
        }
        forget();
        settler.end(false);
        delay = tries.next(Duration.ZERO);
      } else {
        if (tries.failures() >= options.maxRetries || !goesOn(end)) {
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

  /** Whether trying again can help, here or at another address; turns there. */
  private boolean goesOn(Session.End end) {
    if (!end.error().isRetryable()) {
      forget();
      return !end.error().reason().equals(AckgateException.SUPERSEDED) && gateways.refused();
    }
    // What is in hand is known only where it came from: there first.
    if (!end.opened() || !isResumable()) {
      gateways.leave();
    }
    return true;
  }

  String address() {
    return gateways.current().address();
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
    gateways.opened();
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
    settler.confirmed(message);
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

  void sent(Gathering.Answered answered) {
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
    try {
      options.listener.accept(event);
    } catch (RuntimeException e) {
      // It must not cost the stream.
      LOG.log(System.Logger.Level.WARNING, "the listener failed", e);
    }
  }

  boolean isClosing() {
    return closing.getCount() == 0;
  }

  boolean isExtending() {
    return extending;
  }

  /** Gives back what was received and not begun. */
  void discard(List<Delivery> deliveries) {
    if (!deliveries.isEmpty()) {
      counters.discarded.add(deliveries.size());
      new Batch(settler, deliveries).answer(Verdict.RELEASED, false);
    }
  }

  void setExtending(boolean extending) {
    this.extending = extending;
  }

  /** Nothing new is taken, and what was not begun is given back. */
  void leave() {
    leaving.countDown();
    settler.setCredit(0, 0);
    discard(intake.end());
  }

  void awaitLeaving() throws InterruptedException {
    leaving.await();
  }

  /** Begins the goodbye. */
  void close() {
    leave();
    closing.countDown();
    settler.nudge();
  }

  /** Returns whether the last session ended within that time. */
  boolean awaitDone(Duration time) throws InterruptedException {
    return done.await(time.toNanos(), TimeUnit.NANOSECONDS);
  }

  boolean isDone() {
    return done.getCount() == 0;
  }

  /** Why it ended; null: as it should. Known when it is done. */
  AckgateException error() {
    return error;
  }

  synchronized String subscriberId() {
    return subscriberId;
  }
}
