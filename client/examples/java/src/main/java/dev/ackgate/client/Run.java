package dev.ackgate.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** Records of one lane that follow each other and have the same numbers; both ends included. */
record Run(HandOver of, long first, long last) {
  /** What the records of a run have in common beside following each other. */
  record HandOver(Lane lane, int delivery, int attempt) {}

  private static final Comparator<Run> BY_WIRE =
      Comparator.<Run>comparingLong(run -> run.of.lane.id)
          .thenComparingInt(run -> run.of.delivery)
          .thenComparingInt(run -> run.of.attempt)
          .thenComparingLong(Run::first);

  Lane lane() {
    return of.lane;
  }

  long length() {
    return last - first + 1;
  }

  Run part(long first, long last) {
    return new Run(of, first, last);
  }

  /** The run of both, if one follows the other without a gap; else null. */
  Run joined(Run next) {
    if (!of.equals(next.of)) {
      return null;
    }
    if (last != Long.MAX_VALUE && last + 1 == next.first) {
      return part(first, next.last);
    }
    if (next.last != Long.MAX_VALUE && next.last + 1 == first) {
      return part(next.first, last);
    }
    return null;
  }

  /** Appends {@code next} to {@code runs}, joined with the last one if it can be. */
  static void append(List<Run> runs, Run next) {
    Run both = runs.isEmpty() ? null : runs.get(runs.size() - 1).joined(next);
    if (both == null) {
      runs.add(next);
    } else {
      runs.set(runs.size() - 1, both);
    }
  }

  /** Joins runs given in any order. */
  static List<Run> joined(List<Run> runs) {
    List<Run> result = new ArrayList<>();
    runs.stream().sorted(BY_WIRE).forEach(run -> append(result, run));
    return result;
  }
}
