package dev.ackgate.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Which deliveries are in hand. A verdict counts only for what is in here and takes it out; so each
 * delivery is answered once at most, and what did not survive a reconnect not at all.
 */
final class Held {
  /** Last offsets by first ones, apart from each other. */
  private final Map<Run.HandOver, TreeMap<Long, Long>> spans = new HashMap<>();

  /** Takes in a run; neighbours become one. */
  void insert(Run run) {
    TreeMap<Long, Long> of = spans.computeIfAbsent(run.of(), key -> new TreeMap<>());
    long first = run.first();
    long last = run.last();
    Map.Entry<Long, Long> before = of.floorEntry(first);
    if (before != null && before.getValue() >= (first == Long.MIN_VALUE ? first : first - 1)) {
      first = before.getKey();
      last = Math.max(last, before.getValue());
    }
    long reach = last == Long.MAX_VALUE ? last : last + 1;
    var within = of.subMap(first, true, reach, true).entrySet().iterator();
    while (within.hasNext()) {
      last = Math.max(last, within.next().getValue());
      within.remove();
    }
    of.put(first, last);
  }

  /** Takes out what is held of {@code run}, and returns it in order. */
  List<Run> take(Run run) {
    List<Run> taken = new ArrayList<>();
    TreeMap<Long, Long> of = spans.get(run.of());
    if (of == null) {
      return taken;
    }
    Map.Entry<Long, Long> entry = of.floorEntry(run.first());
    if (entry == null || entry.getValue() < run.first()) {
      entry = of.higherEntry(run.first());
    }
    while (entry != null && entry.getKey() <= run.last()) {
      of.remove(entry.getKey());
      Run part = run.part(Math.max(entry.getKey(), run.first()), Math.min(entry.getValue(), run.last()));
      if (entry.getKey() < part.first()) {
        of.put(entry.getKey(), part.first() - 1);
      }
      if (entry.getValue() > part.last()) {
        of.put(part.last() + 1, entry.getValue());
      }
      taken.add(part);
      entry = part.last() == Long.MAX_VALUE ? null : of.ceilingEntry(part.last() + 1);
    }
    if (of.isEmpty()) {
      spans.remove(run.of());
    }
    return taken;
  }

  /** Returns the parts of {@code run} that are not held, in order. */
  List<Run> missing(Run run) {
    List<Run> missing = new ArrayList<>();
    TreeMap<Long, Long> of = spans.getOrDefault(run.of(), new TreeMap<>());
    long next = run.first();
    Long from = of.floorKey(run.first());
    for (var entry : of.subMap(from == null ? run.first() : from, true, run.last(), true).entrySet()) {
      if (entry.getValue() < next) {
        continue;
      }
      if (next < entry.getKey()) {
        missing.add(run.part(next, entry.getKey() - 1));
      }
      if (entry.getValue() >= run.last()) {
        return missing;
      }
      next = entry.getValue() + 1;
    }
    missing.add(run.part(next, run.last()));
    return missing;
  }

  /** Returns whether the first record of {@code run} is held. */
  boolean has(Run run) {
    TreeMap<Long, Long> of = spans.get(run.of());
    Map.Entry<Long, Long> at = of == null ? null : of.floorEntry(run.first());
    return at != null && at.getValue() >= run.first();
  }

  /** Returns all of it, in no order between hand-overs. */
  List<Run> runs() {
    List<Run> runs = new ArrayList<>();
    spans.forEach((key, of) -> of.forEach((first, last) -> runs.add(new Run(key, first, last))));
    return runs;
  }

  long count() {
    return runs().stream().mapToLong(Run::length).sum();
  }
}
