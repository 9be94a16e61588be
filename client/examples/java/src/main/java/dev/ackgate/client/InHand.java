package dev.ackgate.client;

import dev.ackgate.v1.ResumeAnswer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the program was handed and has not answered, by lane, and what a reconnect leaves of it. Its
 * settler's lock guards it.
 */
final class InHand {
  /** Lanes beyond this are forgotten once nothing of them is in hand. */
  private static final int MANY_LANES = 10_000;

  /** Records that {@code held} has. */
  private long out;

  private Held held = new Held();

  /** What of it is extended by itself: not what the gateway has refused. */
  private Held lapsing = new Held();

  /** As the open session names them. */
  private Map<Long, Lane> lanes = new HashMap<>();

  /** What the session that is being opened names to the gateway. */
  private List<Run> named = List.of();

  boolean isEmpty() {
    return out == 0;
  }

  /** Returns whether the first record of {@code run} is in hand. */
  boolean has(Run run) {
    return held.has(run);
  }

  /** Runs of a batch were handed over. */
  void handed(List<Run> runs) {
    for (Run run : runs) {
      out += run.length();
      held.insert(run);
      lapsing.insert(run);
    }
  }

  /** Takes out what is in hand of {@code run}, and returns it in order. */
  List<Run> take(Run run) {
    List<Run> taken = held.take(run);
    lapsing.take(run);
    taken.forEach(part -> out -= part.length());
    return taken;
  }

  /** What is extended by itself. */
  List<Run> lapsing() {
    return lapsing.runs();
  }

  /** The gateway did not extend these. */
  void refused(long id, long first, long last) {
    for (Run run : lapsing.runs()) {
      if (run.lane().id == id) {
        lapsing.take(run.part(first, last));
      }
    }
  }

  /** The lane that the open session names {@code id}. */
  Lane lane(long id, String topic, int partition, long epoch) {
    Lane found = lanes.get(id);
    if (found != null) {
      return found;
    }
    if (lanes.size() >= MANY_LANES) {
      Set<Lane> holding = new HashSet<>();
      held.runs().forEach(run -> holding.add(run.lane()));
      lanes.values().removeIf(lane -> !holding.contains(lane));
    }
    Lane made = new Lane(topic, partition, epoch, id);
    lanes.put(id, made);
    return made;
  }

  /** What the open session names {@code id}; null if it is not remembered. */
  Lane named(long id) {
    return lanes.get(id);
  }

  /** What to name to the gateway when the next session is opened, with what was {@code answered}. */
  List<dev.ackgate.v1.Held> manifest(List<Run> answered) {
    List<Run> runs = held.runs();
    runs.addAll(answered);
    named = Fates.manifest(runs);
    List<dev.ackgate.v1.Held> wire = new ArrayList<>();
    for (Run run : named) {
      var one = dev.ackgate.v1.Held.newBuilder().setTopic(run.lane().topic);
      one.setPartition(run.lane().partition).setEpoch(run.lane().epoch);
      one.setFirstOffset(run.first()).setLastOffset(run.last()).setDelivery(run.of().delivery());
      wire.add(one.build());
    }
    return wire;
  }

  /** Keeps of what was named what the gateway keeps, under the numbers that it has now. */
  Fates keep(List<ResumeAnswer> resumed) {
    Fates fates = new Fates(named, resumed);
    named = List.of();
    lanes = new HashMap<>();
    fates.ids.forEach(
        (lane, id) -> {
          lane.id = id;
          lanes.put(id, lane);
        });
    List<Run> before = held.runs();
    drop();
    // What is not begun, or not answered yet, comes again: only a verdict on it is a problem.
    List<Run> quietly = new ArrayList<>();
    before.forEach(run -> handed(fates.of(run, quietly)));
    return fates;
  }

  /** Nothing is in hand any more. */
  void drop() {
    held = new Held();
    lapsing = new Held();
    out = 0;
  }
}
