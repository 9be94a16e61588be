package dev.ackgate.client;

import dev.ackgate.v1.ResumeAnswer;
import dev.ackgate.v1.ResumeResult;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Going on after a broken stream: what is named to the gateway, and what its answer leaves of it.
 * What is neither kept nor settled is lost.
 */
final class Fates {
  /** Most runs that a gateway takes. What is beyond is delivered again. */
  static final int MOST_HELD = 10_000;

  private static final Comparator<Run> LATEST_FIRST =
      Comparator.<Run>comparingInt(run -> run.of().delivery())
          .reversed()
          .thenComparing(run -> run.lane().topic)
          .thenComparingInt(run -> run.lane().partition)
          .thenComparingLong(Run::first);

  final Held kept = new Held();
  private final Held settled = new Held();

  /** Numbers of now of lanes of which something was kept. */
  final Map<Lane, Long> ids = new HashMap<>();

  /** How many answers said kept. */
  final int runs;

  /**
   * Picks what is named to the gateway. Of two deliveries of one record it is the later one: the
   * earlier is over.
   */
  static List<Run> manifest(List<Run> runs) {
    Map<Lane.Partition, Held> names = new HashMap<>();
    var anyone = new Run.HandOver(null, 0, 0);
    List<Run> named = new ArrayList<>();
    for (Run run : runs.stream().sorted(LATEST_FIRST).toList()) {
      Held taken = names.computeIfAbsent(run.lane().partitionOf(), key -> new Held());
      Run anonymous = new Run(anyone, run.first(), run.last());
      for (Run part : taken.missing(anonymous)) {
        named.add(run.part(part.first(), part.last()));
      }
      taken.insert(anonymous);
      if (named.size() >= MOST_HELD) {
        return named.subList(0, MOST_HELD);
      }
    }
    return named;
  }

  /** Joins what was named with the gateway's answers. */
  Fates(List<Run> named, List<ResumeAnswer> answers) {
    Map<Lane.Partition, TreeMap<Long, ResumeAnswer>> parts = new HashMap<>();
    int kepts = 0;
    for (ResumeAnswer answer : answers) {
      var at = new Lane.Partition(answer.getTopic(), answer.getPartition());
      parts.computeIfAbsent(at, key -> new TreeMap<>()).put(answer.getFirstOffset(), answer);
      kepts += answer.getResult() == ResumeResult.RESUME_RESULT_KEPT ? 1 : 0;
    }
    this.runs = kepts;
    for (Run run : named) {
      var of = parts.getOrDefault(run.lane().partitionOf(), new TreeMap<>());
      Long from = of.floorKey(run.first());
      for (ResumeAnswer answer :
          of.subMap(from == null ? run.first() : from, true, run.last(), true).values()) {
        long first = Math.max(run.first(), answer.getFirstOffset());
        long last = Math.min(run.last(), answer.getLastOffset());
        if (first > last) {
          continue;
        }
        if (answer.getResult() == ResumeResult.RESUME_RESULT_KEPT) {
          kept.insert(run.part(first, last));
          ids.put(run.lane(), answer.getLane());
        } else if (answer.getResult() == ResumeResult.RESUME_RESULT_SETTLED) {
          settled.insert(run.part(first, last));
        }
      }
    }
  }

  /** Returns the parts of {@code run} that were kept; adds those that are lost to {@code lost}. */
  List<Run> of(Run run, List<Run> lost) {
    List<Run> parts = kept.take(run);
    Held rest = new Held();
    rest.insert(run);
    parts.forEach(rest::take);
    settled.take(run).forEach(rest::take);
    lost.addAll(rest.runs());
    return parts;
  }
}
