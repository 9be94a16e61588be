package dev.ackgate.client;

import dev.ackgate.v1.Beat;
import dev.ackgate.v1.Close;
import dev.ackgate.v1.Credit;
import dev.ackgate.v1.Extend;
import dev.ackgate.v1.Extension;
import dev.ackgate.v1.Settings;
import dev.ackgate.v1.Settle;
import dev.ackgate.v1.SubscribeRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Turns what a settler gathers into messages of one session, and knows when they are due. One thread
 * uses it.
 */
final class Writer {
  /** Marks the sequence numbers of extensions: their answers are told from those to verdicts. */
  static final long EXTEND_BIT = Long.MIN_VALUE;

  /** How long verdicts are gathered into one message. */
  private static final long FLUSH_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  /** Most verdicts in a message if the gateway does not say. */
  private static final int MAX_VERDICTS = 10_000;

  /** Largest verdict message: well below the 4 MiB that gRPC servers accept by default. */
  private static final int MAX_SETTLE_BYTES = 1 << 20;

  /** Hands a message to the stream. */
  @FunctionalInterface
  interface Stream {
    /** Returns whether that was done. */
    boolean send(SubscribeRequest message) throws InterruptedException;
  }

  private final Settler settler;
  private final Stream stream;
  private final Consumer<Gathering.Answered> sent;
  private final int maxVerdicts;
  private final Duration deadline;
  private final long beat;
  private final long extend;
  private long sequence;
  private long nextBeat;
  private long nextExtend;
  private long flushAt;
  private boolean gathering;
  private boolean done;

  Writer(Settler settler, Stream stream, Consumer<Gathering.Answered> sent, Settings settings) {
    this.settler = settler;
    this.stream = stream;
    this.sent = sent;
    int most = settings.getMaxVerdicts();
    this.maxVerdicts = most > 0 ? Math.min(most, MAX_VERDICTS) : MAX_VERDICTS;
    this.deadline = extensionOf(Duration.ofNanos(Session.nanos(settings.getAckDeadline())));
    this.beat = Session.nanos(settings.getLeaseBeat());
    this.extend = deadline.toNanos() / 3;
    long now = System.nanoTime();
    this.nextBeat = now + beat;
    this.nextExtend = now + extend;
  }

  /**
   * By how much to extend: the time for a verdict, as far as one extension can reach. Longer ones are
   * extended as often as that asks for.
   */
  static Duration extensionOf(Duration deadline) {
    return deadline.compareTo(Settler.MAX_EXTENSION) > 0 ? Settler.MAX_EXTENSION : deadline;
  }

  /** Sends what is due. Returns for how many nanoseconds nothing else is, unless the settler wakes it. */
  long step(long now, boolean extending) throws InterruptedException {
    if (done) {
      return Long.MAX_VALUE;
    }
    if (beat > 0 && now - nextBeat >= 0) {
      nextBeat = now + beat;
      stream.send(SubscribeRequest.newBuilder().setBeat(Beat.getDefaultInstance()).build());
    }
    if (extend > 0 && now - nextExtend >= 0) {
      nextExtend = now + extend;
      if (extending) {
        settler.extendAll(deadline);
      }
    }
    switch (settler.readiness()) {
      case NOW -> flush();
      case SOON -> {
        if (!gathering) {
          gathering = true;
          flushAt = now + FLUSH_NANOS;
        } else if (now - flushAt >= 0) {
          flush();
        }
      }
      case NOTHING -> gathering = false;
    }
    long wait = beat > 0 ? nextBeat - now : Long.MAX_VALUE;
    wait = extend > 0 ? Math.min(wait, nextExtend - now) : wait;
    wait = gathering ? Math.min(wait, flushAt - now) : wait;
    return Math.max(wait, 0);
  }

  private void flush() throws InterruptedException {
    gathering = false;
    Gathering.Taken taken = settler.take();
    boolean open = true;
    if (taken.credit() != null) {
      var credit = Credit.newBuilder().setRecords((int) taken.credit()[0]).setBytes(taken.credit()[1]);
      open = stream.send(SubscribeRequest.newBuilder().setCredit(credit).build());
    }
    // Extensions first: a verdict on the same record would make them late.
    for (Map.Entry<Duration, List<Run>> group : taken.extensions().entrySet()) {
      open = open && extend(group.getKey(), Run.joined(group.getValue()));
    }
    List<Gathering.Answered> left = merged(taken.answers());
    var watchers = Waits.byRecord(taken.watchers());
    while (open && !left.isEmpty()) {
      Settle.Builder settle = Settle.newBuilder().setSequence(++sequence);
      int bytes = 0;
      while (settle.getVerdictsCount() < Math.min(left.size(), maxVerdicts) && bytes < MAX_SETTLE_BYTES) {
        Gathering.Answered next = left.get(settle.getVerdictsCount());
        var wire = next.verdict().wire(next.run());
        bytes += wire.getSerializedSize() + 4;
        settle.addVerdicts(wire);
      }
      List<Gathering.Answered> inside = left.subList(0, settle.getVerdictsCount());
      List<Waits.Watcher> waiting = Waits.watching(inside, watchers);
      if (!waiting.isEmpty()) {
        // Before it is sent: the answer may come at once.
        settler.waiting(sequence, waiting);
      }
      open = stream.send(SubscribeRequest.newBuilder().setSettle(settle).build());
      if (!open) {
        settler.waiting(sequence, List.of());
      } else {
        inside.forEach(sent);
        left = left.subList(settle.getVerdictsCount(), left.size());
      }
    }
    if (!left.isEmpty()) {
      settler.restore(left, Waits.watching(left, watchers));
    }
    if (open && taken.close()) {
      // End of input without it would be a loss.
      stream.send(SubscribeRequest.newBuilder().setClose(Close.getDefaultInstance()).build());
    }
    done = !open || taken.close();
  }

  private boolean extend(Duration by, List<Run> runs) throws InterruptedException {
    for (int at = 0; at < runs.size(); at += maxVerdicts) {
      Extend.Builder message = Extend.newBuilder().setSequence(++sequence | EXTEND_BIT).setBy(Verdict.wire(by));
      for (Run run : runs.subList(at, Math.min(at + maxVerdicts, runs.size()))) {
        Extension.Builder one = Extension.newBuilder().setLane(run.lane().id).setFirstOffset(run.first());
        if (run.last() != run.first()) {
          one.setLastOffset(run.last());
        }
        message.addExtensions(one);
      }
      if (!stream.send(SubscribeRequest.newBuilder().setExtend(message).build())) {
        return false;
      }
    }
    return true;
  }

  /** Joins acks given in any order; other verdicts stay in the order given. */
  static List<Gathering.Answered> merged(List<Gathering.Answered> answers) {
    List<Run> acks = new ArrayList<>();
    List<Gathering.Answered> others = new ArrayList<>();
    for (Gathering.Answered answered : answers) {
      if (answered.verdict().outcome() == Outcome.ACKED) {
        acks.add(answered.run());
      } else {
        others.add(answered);
      }
    }
    List<Gathering.Answered> merged = new ArrayList<>();
    Run.joined(acks).forEach(run -> merged.add(new Gathering.Answered(run, Verdict.ACKED)));
    merged.addAll(others);
    return merged;
  }
}
