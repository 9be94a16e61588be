package dev.ackgate.client;

import dev.ackgate.v1.ResumeAnswer;
import dev.ackgate.v1.Settled;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Knows what the program has in hand, and gathers its verdicts until the writer of the session takes
 * them. One for all sessions of a subscriber, so that deliveries outlive a broken stream where the
 * gateway keeps them.
 *
 * <p>Giving a verdict never waits for the network. What is gathered is bounded by what is out, and
 * so by the credit: each record is answered once.
 */
final class Settler {
  /** Records that are answered before the writer sends at once. */
  static final int FLUSH_RECORDS = 1_000;

  /** Most that an extension may ask for. */
  static final Duration MAX_EXTENSION = Duration.ofMinutes(10);

  /** What there is of a session. */
  private enum Phase {
    /** None that anything came from. */
    OVER,
    /** One is open. */
    OPEN,
    /** It broke and may be gone on with: verdicts are kept for the next one. */
    BROKEN
  }

  /** Whether there is something to send. */
  enum Readiness {
    NOTHING,
    SOON,
    NOW
  }

  private final ReentrantLock lock = new ReentrantLock();

  /** There is something to do for the writer. */
  private final Condition work = lock.newCondition();

  /** The phase has changed. */
  private final Condition changed = lock.newCondition();

  /** Is told of verdicts on what is not the program's any more, without the lock. */
  private final Consumer<Run> lost;

  private Phase phase = Phase.OVER;
  private boolean nudged;

  /** What the writer takes. */
  private final Gathering gathering = new Gathering();

  /** What the program has not answered. */
  private final InHand inHand = new InHand();

  /** Close as soon as nothing is out. */
  private boolean draining;

  /** Close now; later verdicts do not count. */
  private boolean closing;

  /** Durable confirmations are asked for. */
  private final boolean durable;

  private final Waits waits = new Waits();

  /** The goodbye does not wait for confirmations any longer. */
  private boolean hurried;

  Settler(Consumer<Run> lost, boolean durable) {
    this.lost = lost;
    this.durable = durable;
  }

  /** Takes the verdict on one record, and says when it is durable. */
  CompletableFuture<Void> answerDurably(Run run, Verdict verdict) {
    if (!durable) {
      answer(run, verdict, true);
      return over("the subscriber did not ask for durable confirmations");
    }
    CompletableFuture<Void> wait = new CompletableFuture<>();
    answer(run, verdict, true, wait);
    return wait;
  }

  /** A wait that is over: nobody will tell. */
  static CompletableFuture<Void> over(String why) {
    return CompletableFuture.failedFuture(new NotDurableException(why, null));
  }

  /** Takes a verdict. tell: if it comes too late, that is a problem. */
  void answer(Run run, Verdict verdict, boolean tell) {
    answer(run, verdict, tell, null);
  }

  private void answer(Run run, Verdict verdict, boolean tell, CompletableFuture<Void> wait) {
    long count = 0;
    lock.lock();
    try {
      if (!closing) {
        for (Run part : inHand.take(run)) {
          count += part.length();
          gathering.add(part, verdict);
        }
      }
      if (wait != null && count > 0) {
        gathering.watch(new Waits.Watcher(run, wait));
      }
      long now = gathering.pending();
      long before = now - count;
      boolean isFull = before < FLUSH_RECORDS && now >= FLUSH_RECORDS;
      if ((before == 0 && count > 0) || isFull || (draining && inHand.isEmpty())) {
        nudgeLocked();
      }
    } finally {
      lock.unlock();
    }
    if (wait != null && count == 0) {
      wait.completeExceptionally(NotDurableException.sessionEnded());
    }
    if (tell && count < run.length()) {
      lost.accept(run);
    }
  }

  /** Asks for more time; a later call for the same run replaces an unsent one. */
  void extend(List<Run> runs, Duration by) {
    if (by.isNegative() || by.isZero()) {
      return;
    }
    Duration bounded = by.compareTo(MAX_EXTENSION) > 0 ? MAX_EXTENSION : by;
    locked(
        () -> {
          for (Run run : runs) {
            if (!closing && inHand.has(run)) {
              gathering.extend(run, bounded);
            }
          }
          nudgeLocked();
        });
  }

  /** Asks for more time for all that is in hand. */
  void extendAll(Duration by) {
    List<Run> runs = locked(inHand::lapsing);
    if (!runs.isEmpty()) {
      extend(runs, by);
    }
  }

  /** The gateway did not extend these: the deadline has passed, or the lane has gone. */
  void refused(long id, long first, long last) {
    locked(() -> inHand.refused(id, first, last));
  }

  void setCredit(long records, long bytes) {
    locked(
        () -> {
          gathering.setCredit(records, bytes);
          nudgeLocked();
        });
  }

  /** Says goodbye once everything out is answered. */
  void drain() {
    locked(
        () -> {
          draining = true;
          nudgeLocked();
        });
  }

  /** Says goodbye after what is gathered; later verdicts do not count. */
  void close() {
    locked(
        () -> {
          closing = true;
          nudgeLocked();
        });
  }

  /** Returns whether nothing is gathered that would still be sent. */
  boolean isAnswered() {
    return locked(() -> phase == Phase.OVER || gathering.pending() == 0);
  }

  Readiness readiness() {
    return locked(
        () -> {
          boolean isOver = isLeaving() && mayClose();
          if (isOver || gathering.pending() >= FLUSH_RECORDS || gathering.isUrgent()) {
            return Readiness.NOW;
          }
          return gathering.pending() > 0 ? Readiness.SOON : Readiness.NOTHING;
        });
  }

  /** Gives the writer what is gathered. */
  Gathering.Taken take() {
    return locked(
        () -> {
          // Nothing counts after the goodbye, which releases what is still out.
          closing = isLeaving();
          return gathering.take(closing && mayClose());
        });
  }

  /** Takes back verdicts that did not get out, for the next session. */
  void restore(List<Gathering.Answered> unsent, List<Waits.Watcher> watchers) {
    locked(() -> gathering.restore(unsent, watchers));
  }

  private boolean isLeaving() {
    return closing || (draining && inHand.isEmpty());
  }

  private boolean mayClose() {
    return hurried || (waits.isEmpty() && !gathering.isWatched());
  }

  /** Returns whether only confirmations are waited for before the goodbye. */
  boolean isConfirming() {
    return locked(() -> isLeaving() && !mayClose());
  }

  /** Says goodbye also if the gateway has not confirmed everything. */
  void hurry() {
    locked(
        () -> {
          hurried = true;
          nudgeLocked();
        });
  }

  /** A message with this number is about to be sent; without watchers it was not sent after all. */
  void waiting(long sequence, List<Waits.Watcher> watchers) {
    locked(() -> waits.sent(sequence, watchers));
  }

  /** The gateway answers a message: ends the waits for it. */
  void confirmed(Settled message) {
    List<Waits.Over> over =
        locked(
            () -> {
              nudgeLocked();
              return waits.settled(message);
            });
    over.forEach(Waits.Over::end);
  }

  /** Wakes the writer. */
  void nudge() {
    locked(this::nudgeLocked);
  }

  /** Waits until the writer is woken, at most so long. */
  void awaitWork(long nanos) throws InterruptedException {
    lock.lock();
    try {
      long left = nanos;
      while (!nudged && left > 0) {
        left = work.awaitNanos(left);
      }
      nudged = false;
    } finally {
      lock.unlock();
    }
  }

  /** Runs of a batch were handed over. */
  void handed(List<Run> runs) {
    locked(() -> inHand.handed(runs));
  }

  /** The lane that the open session names {@code id}. */
  Lane lane(long id, String topic, int partition, long epoch) {
    return locked(() -> inHand.lane(id, topic, partition, epoch));
  }

  /** What the open session names {@code id}; null if it is not remembered. */
  Lane named(long id) {
    return locked(() -> inHand.named(id));
  }

  /** What to name to the gateway when the next session is opened. */
  List<dev.ackgate.v1.Held> manifest() {
    return locked(() -> inHand.manifest(gathering.runs()));
  }

  /** A session is open that keeps what {@code resumed} says. Returns how many runs it kept. */
  int begin(List<ResumeAnswer> resumed) {
    List<Run> tooLate = new ArrayList<>();
    List<Waits.Over> over = new ArrayList<>();
    int kept =
        locked(
            () -> {
              Fates fates = inHand.keep(resumed);
              gathering.keep(fates, tooLate);
              over.addAll(gathering.keepWatchers());
              // The goodbye to a draining gateway was for its session alone.
              draining = false;
              closing = false;
              hurried = false;
              enter(Phase.OPEN);
              nudgeLocked();
              return fates.runs;
            });
    over.forEach(Waits.Over::end);
    tooLate.forEach(lost);
    return kept;
  }

  /**
   * The stream is gone. mayGoOn: it may be gone on with; else nothing that came from it counts any
   * more. Returns how many records' verdicts were dropped.
   */
  long end(boolean mayGoOn) {
    List<Waits.Over> over;
    long dropped = 0;
    lock.lock();
    try {
      gathering.forgetCredit();
      over = waits.end();
      if (mayGoOn) {
        enter(Phase.BROKEN);
      } else {
        enter(Phase.OVER);
        dropped = gathering.drop();
        over.addAll(gathering.keepWatchers());
        inHand.drop();
      }
    } finally {
      lock.unlock();
    }
    over.forEach(Waits.Over::end);
    return dropped;
  }

  /**
   * Returns whether the record is still the program's. While a broken session may be gone on with,
   * waits for that up to {@code nanos}, and returns null if it is not known by then.
   */
  Boolean isHeld(Run run, long nanos) throws InterruptedException {
    lock.lock();
    try {
      long left = nanos;
      while (phase == Phase.BROKEN) {
        if (left <= 0) {
          return null;
        }
        left = changed.awaitNanos(left);
      }
      return inHand.has(run);
    } finally {
      lock.unlock();
    }
  }

  private void enter(Phase next) {
    phase = next;
    changed.signalAll();
  }

  private void nudgeLocked() {
    nudged = true;
    work.signalAll();
  }

  private void locked(Runnable action) {
    lock.lock();
    try {
      action.run();
    } finally {
      lock.unlock();
    }
  }

  private <T> T locked(Supplier<T> question) {
    lock.lock();
    try {
      return question.get();
    } finally {
      lock.unlock();
    }
  }
}
