package dev.ackgate.client;

import dev.ackgate.v1.Settled;
import dev.ackgate.v1.VerdictAnswer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * The messages of one session whose verdicts somebody waits for to be durable. Its settler's lock
 * guards it; what it returns is to be ended without that. Each wait ends: with the gateway's answer,
 * or with its session.
 */
final class Waits {
  /** Who waits for the verdict on one record. */
  record Watcher(Run run, CompletableFuture<Void> durable) {
    /** What tells a record apart in a message. */
    Key key() {
      return new Key(run.lane(), run.of().delivery(), run.first());
    }
  }

  /** A hand-over of a record. */
  record Key(Lane lane, int delivery, long offset) {}

  /** A wait that is over; error: null if the verdict is durable. */
  record Over(CompletableFuture<Void> durable, NotDurableException error) {
    void end() {
      if (error == null) {
        durable.complete(null);
      } else {
        durable.completeExceptionally(error);
      }
    }
  }

  /** A record within a session. */
  private record Place(long lane, long offset) {}

  private record Message(Map<Place, CompletableFuture<Void>> watchers, Map<Place, Event.Kind> failed) {}

  private final Map<Long, Message> open = new HashMap<>();

  boolean isEmpty() {
    return open.isEmpty();
  }

  /** A message with this number is about to be sent; without watchers it was not sent after all. */
  void sent(long sequence, List<Watcher> watchers) {
    open.remove(sequence);
    if (!watchers.isEmpty()) {
      Message message = new Message(new HashMap<>(), new HashMap<>());
      watchers.forEach(it -> message.watchers.put(new Place(it.run.lane().id, it.run.first()), it.durable));
      open.put(sequence, message);
    }
  }

  /** Takes the gateway's answer. Returns the waits that it ends. */
  List<Over> settled(Settled wire) {
    Message message = open.get(wire.getSequence());
    if (message == null) {
      return List.of();
    }
    for (VerdictAnswer answer : wire.getAnswersList()) {
      Event.Kind kind = Event.Kind.of(answer.getResult());
      // An equal verdict given before is as good.
      if (kind != Event.Kind.DUPLICATE) {
        hit(message, answer).forEach(place -> message.failed.putIfAbsent(place, kind));
      }
    }
    if (wire.getMore()) {
      return List.of();
    }
    open.remove(wire.getSequence());
    List<Over> over = new ArrayList<>();
    message.watchers.forEach((place, durable) -> over.add(new Over(durable, error(message.failed.get(place)))));
    return over;
  }

  /** The session is over. Returns who still waits. */
  List<Over> end() {
    List<Over> over = new ArrayList<>();
    for (Message message : open.values()) {
      message.watchers.values().forEach(durable -> over.add(new Over(durable, NotDurableException.sessionEnded())));
    }
    open.clear();
    return over;
  }

  private static NotDurableException error(Event.Kind kind) {
    return kind == null ? null : new NotDurableException("the verdict did not become durable: " + kind, kind);
  }

  /** Whose records are concerned, looked up by the record or by the watcher, whichever are fewer. */
  private static List<Place> hit(Message message, VerdictAnswer answer) {
    long first = answer.getFirstOffset();
    long last = answer.getLastOffset();
    List<Place> hit = new ArrayList<>();
    if (last - first >= 0 && last - first < message.watchers.size()) {
      for (long offset = first; offset <= last; offset++) {
        hit.add(new Place(answer.getLane(), offset));
      }
    } else {
      for (Place place : message.watchers.keySet()) {
        if (place.lane == answer.getLane() && first <= place.offset && place.offset <= last) {
          hit.add(place);
        }
      }
    }
    return hit;
  }

  /** Those who wait for one of these verdicts. */
  static List<Watcher> watching(List<Gathering.Answered> answers, Map<Key, Watcher> all) {
    List<Watcher> found = new ArrayList<>();
    if (all.isEmpty()) {
      return found;
    }
    for (Gathering.Answered answered : answers) {
      Run run = answered.run();
      for (long offset = run.first(); offset <= run.last(); offset++) {
        Watcher watcher = all.get(new Key(run.lane(), run.of().delivery(), offset));
        if (watcher != null) {
          found.add(watcher);
        }
      }
    }
    return found;
  }

  static Map<Key, Watcher> byRecord(List<Watcher> watchers) {
    Map<Key, Watcher> all = new HashMap<>();
    watchers.forEach(watcher -> all.put(watcher.key(), watcher));
    return all;
  }
}
