package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.ackgate.v1.ResumeResult;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

final class HeldTest {
  private static final Lane LANE = new Lane("orders", 0, 1, 7);

  private static Run run(int delivery, long first, long last) {
    return new Run(new Run.HandOver(LANE, delivery, 1), first, last);
  }

  private static List<Long> offsets(List<Run> runs) {
    return runs.stream().flatMap(run -> LongStream.rangeClosed(run.first(), run.last()).boxed()).toList();
  }

  /** Random runs go in and out, as they do of a plain set of numbers. */
  @Test
  void heldIsASetOfOffsets() {
    long seed = System.nanoTime();
    Random random = new Random(seed);
    Held got = new Held();
    TreeSet<Long> want = new TreeSet<>();
    for (int i = 0; i < 5_000; i++) {
      long first = random.nextInt(60);
      Run run = run(1, first, first + random.nextInt(8));
      List<Long> all = offsets(List.of(run));
      assertEquals(all.stream().filter(offset -> !want.contains(offset)).toList(), offsets(got.missing(run)), "seed " + seed);
      if (random.nextBoolean()) {
        got.insert(run);
        want.addAll(all);
      } else {
        assertEquals(all.stream().filter(want::contains).toList(), offsets(got.take(run)), "seed " + seed);
        all.forEach(want::remove);
      }
      assertEquals(want.contains(first), got.has(run), "seed " + seed);
      assertEquals(want.size(), got.count(), "seed " + seed);
      List<Run> runs = got.runs();
      for (int at = 1; at < runs.size(); at++) {
        assertTrue(runs.get(at - 1).last() + 1 < runs.get(at).first(), "neighbours are apart, seed " + seed);
      }
    }
    assertFalse(got.has(run(2, 0, 0)));
  }

  @Test
  void manifestNamesTheLaterDelivery() {
    List<Run> named = Fates.manifest(List.of(run(1, 0, 9), run(2, 4, 5), run(1, 20, 20)));
    List<String> plain =
        named.stream().map(run -> run.of().delivery() + ":" + run.first() + "-" + run.last()).toList();
    assertEquals(List.of("2:4-5", "1:0-3", "1:6-9", "1:20-20"), plain);
    List<Run> many = LongStream.range(0, Fates.MOST_HELD + 5).mapToObj(i -> run(1, 2 * i, 2 * i)).toList();
    assertEquals(Fates.MOST_HELD, Fates.manifest(many).size());
  }

  @Test
  void whatHasNoAnswerIsLost() {
    Fates fates =
        new Fates(
            List.of(run(1, 0, 8)),
            List.of(
                FakeGateway.answer(6, 99, ResumeResult.RESUME_RESULT_SETTLED, 0),
                FakeGateway.answer(2, 4, ResumeResult.RESUME_RESULT_KEPT, 9)));
    List<Run> lost = new ArrayList<>();
    assertEquals(List.of(2L, 3L, 4L), offsets(fates.of(run(1, 0, 8), lost)));
    assertEquals(List.of(0L, 1L, 5L), offsets(lost));
    assertEquals(9, fates.ids.get(LANE));
  }

  @Test
  void cutLeavesWholeCharacters() {
    assertEquals("abcd", Verdict.cut("abcdef", 4));
    assertEquals("abc", Verdict.cut("abcé", 4));
    assertEquals("ab", Verdict.cut("ab\uD83D\uDE00", 5));
    assertEquals("", Verdict.cut(null, 5));
  }

  /** Where the deadline is longer than one extension reaches, it must come as often as that asks for. */
  @Test
  void longDeadlinesAreExtendedInTime() {
    assertEquals(Duration.ofMinutes(10), Writer.extensionOf(Duration.ofHours(1)));
    assertEquals(Duration.ofSeconds(2), Writer.extensionOf(Duration.ofSeconds(2)));
  }

  /** A verdict that the stream does not take any more is named in the next session, and sent there. */
  @Test
  void verdictsThatDoNotGetOutAreKept() throws InterruptedException {
    List<Run> lost = new ArrayList<>();
    Settler settler = new Settler(lost::add, false);
    Lane lane = settler.lane(7, "orders", 0, 1);
    Run all = new Run(new Run.HandOver(lane, 1, 1), 0, 9);
    settler.handed(List.of(all));
    settler.answer(all.part(0, 3), dev.ackgate.client.Verdict.ACKED, true);
    settler.answer(all.part(5, 9), dev.ackgate.client.Verdict.ACKED, true);
    List<Gathering.Answered> sent = new ArrayList<>();
    int[] room = {1};
    var settings = FakeGateway.settings().setMaxVerdicts(1).build();
    Writer writer = new Writer(settler, message -> room[0]-- > 0, sent::add, settings);
    while (sent.isEmpty()) {
      writer.step(System.nanoTime(), false);
    }
    assertEquals(1, sent.size());
    settler.end(true);
    assertEquals(List.of(4L, 9L), ends(settler.manifest()));
    settler.begin(List.of(FakeGateway.answer(4, 9, ResumeResult.RESUME_RESULT_KEPT, 8)));
    room[0] = 1;
    Writer next = new Writer(settler, message -> room[0]-- > 0, sent::add, settings);
    while (sent.size() < 2) {
      next.step(System.nanoTime(), false);
    }
    assertEquals(List.of(5L, 9L, 8L), List.of(sent.get(1).run().first(), sent.get(1).run().last(), lane.id));
    assertTrue(lost.isEmpty());
  }

  /** First and last offset of all that is named. */
  private static List<Long> ends(List<dev.ackgate.v1.Held> held) {
    long first = held.stream().mapToLong(dev.ackgate.v1.Held::getFirstOffset).min().orElse(-1);
    long last = held.stream().mapToLong(dev.ackgate.v1.Held::getLastOffset).max().orElse(-1);
    return List.of(first, last);
  }
}
