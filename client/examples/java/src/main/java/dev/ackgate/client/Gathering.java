package dev.ackgate.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What is to be sent: verdicts, extensions, a credit. Its settler's lock guards it. */
final class Gathering {
  /** A verdict and the records that it is on. */
  record Answered(Run run, Verdict verdict) {}

  /** What the writer takes at once; close: nothing follows, say goodbye. */
  record Taken(
      List<Answered> answers,
      List<Waits.Watcher> watchers,
      Map<Duration, List<Run>> extensions,
      long[] credit,
      boolean close) {}

  private record Extended(Lane lane, long first) {}

  private record Extension(long last, Duration by) {}

  /** In the order given, joined where the next one followed. */
  private List<Answered> answers = new ArrayList<>();

  /** The latest of each run. */
  private Map<Extended, Extension> extensions = new HashMap<>();

  /** Who waits for one of them to be durable. */
  private List<Waits.Watcher> watchers = new ArrayList<>();

  private long[] credit;

  /** Records that {@code answers} are on. */
  private long pending;

  long pending() {
    return pending;
  }

  /** Whether there is something that does not wait for more. */
  boolean isUrgent() {
    return credit != null || !extensions.isEmpty();
  }

  void add(Run run, Verdict verdict) {
    pending += run.length();
    Answered last = answers.isEmpty() ? null : answers.get(answers.size() - 1);
    Run both = last == null || !last.verdict.equals(verdict) ? null : last.run.joined(run);
    if (both == null) {
      answers.add(new Answered(run, verdict));
    } else {
      answers.set(answers.size() - 1, new Answered(both, verdict));
    }
  }

  void watch(Waits.Watcher watcher) {
    watchers.add(watcher);
  }

  boolean isWatched() {
    return !watchers.isEmpty();
  }

  void extend(Run run, Duration by) {
    extensions.merge(
        new Extended(run.lane(), run.first()),
        new Extension(run.last(), by),
        (a, b) -> new Extension(Math.max(a.last, b.last), b.by));
  }

  void setCredit(long records, long bytes) {
    credit = new long[] {records, bytes};
  }

  void forgetCredit() {
    credit = null;
  }

  Taken take(boolean close) {
    Map<Duration, List<Run>> byDuration = new HashMap<>();
    extensions.forEach(
        (at, extension) ->
            byDuration
                .computeIfAbsent(extension.by, key -> new ArrayList<>())
                .add(new Run(new Run.HandOver(at.lane, 0, 0), at.first, extension.last)));
    Taken taken = new Taken(answers, watchers, byDuration, credit, close);
    watchers = new ArrayList<>();
    drop();
    credit = null;
    return taken;
  }

  /** Takes back what did not get out. */
  void restore(List<Answered> unsent, List<Waits.Watcher> waiting) {
    watchers.addAll(waiting);
    List<Answered> all = new ArrayList<>(unsent);
    all.addAll(answers);
    answers = all;
    unsent.forEach(answered -> pending += answered.run.length());
  }

  List<Run> runs() {
    return answers.stream().map(Answered::run).toList();
  }

  /** Keeps what the gateway keeps; adds verdicts that came too late to {@code tooLate}. */
  void keep(Fates fates, List<Run> tooLate) {
    List<Answered> all = answers;
    answers = new ArrayList<>();
    pending = 0;
    for (Answered answered : all) {
      fates.of(answered.run, tooLate).forEach(part -> add(part, answered.verdict));
    }
    extensions.keySet().removeIf(at -> !fates.ids.containsKey(at.lane));
  }

  /** Lets those go on waiting whose verdict is still to be sent. Returns the others. */
  List<Waits.Over> keepWatchers() {
    Held unsent = new Held();
    answers.forEach(answered -> unsent.insert(answered.run));
    List<Waits.Over> over = new ArrayList<>();
    List<Waits.Watcher> all = watchers;
    watchers = new ArrayList<>();
    for (Waits.Watcher watcher : all) {
      if (unsent.has(watcher.run())) {
        watchers.add(watcher);
      } else {
        over.add(new Waits.Over(watcher.durable(), NotDurableException.sessionEnded()));
      }
    }
    return over;
  }

  /** Forgets verdicts and extensions. Returns on how many records the verdicts were. */
  long drop() {
    long dropped = pending;
    pending = 0;
    answers = new ArrayList<>();
    extensions = new HashMap<>();
    return dropped;
  }
}
