package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.ackgate.v1.ResumeResult;
import dev.ackgate.v1.Settled;
import dev.ackgate.v1.SubscribeRequest;
import dev.ackgate.v1.VerdictAnswer;
import dev.ackgate.v1.VerdictResult;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Waits for durable verdicts: what the gateway says ends each, or the end of its session. */
@Timeout(60)
final class DurableTest {
  private final Map<Long, CompletableFuture<Void>> got = new ConcurrentHashMap<>();
  private FakeGateway gateway;

  @BeforeEach
  void serve() throws IOException {
    gateway = new FakeGateway();
  }

  @AfterEach
  void stop() throws InterruptedException {
    gateway.close();
  }

  private Options options() {
    return Running.options(gateway).confirm(Confirm.DURABLE);
  }

  /** Acks durably, and rejects offset 9; without waiting. */
  private Running start(Options options) {
    return new Running(
        options,
        1,
        it -> got.put(it.offset(), it.offset() == 9 ? it.rejectDurably("bad", "no good") : it.ackDurably()));
  }

  private FakeGateway.Stream accept() throws InterruptedException {
    var stream = gateway.accept(FakeGateway.settings().build());
    assertEquals(dev.ackgate.v1.Confirm.CONFIRM_DURABLE, stream.open.getConfirm());
    return stream;
  }

  private void isDurable(long offset) throws Exception {
    FakeGateway.eventually(() -> got.containsKey(offset), "not handled");
    got.get(offset).get(FakeGateway.PATIENCE, TimeUnit.SECONDS);
  }

  private static void isNot(CompletableFuture<Void> wait, Event.Kind kind) {
    var error = assertThrows(ExecutionException.class, () -> wait.get(FakeGateway.PATIENCE, TimeUnit.SECONDS));
    var cause = assertInstanceOf(NotDurableException.class, error.getCause());
    assertEquals(Optional.ofNullable(kind), cause.kind());
  }

  @Test
  void waitLastsUntilTheGatewayConfirmsItsOwnMessage() throws Exception {
    Running running = start(options());
    var stream = accept();
    stream.batch(7, 0);
    var one = stream.settle();
    stream.batch(7, 9);
    var two = stream.settle();
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_ACKED, one.getVerdicts(0).getOutcome());
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_REJECTED, two.getVerdicts(0).getOutcome());
    stream.settled(two);
    isDurable(9);
    assertFalse(got.get(0L).isDone(), "nobody has confirmed it");
    stream.settled(one);
    isDurable(0);
    running.stop(stream);
  }

  @Test
  void waitEndsWithTheProblemOfItsRecord() throws Exception {
    Waits waits = new Waits();
    Lane lane = new Lane("orders", 0, 1, 7);
    var of = new Run.HandOver(lane, 1, 1);
    List<Waits.Watcher> watchers =
        List.of(0L, 1L, 2L, 3L).stream()
            .map(at -> new Waits.Watcher(new Run(of, at, at), new CompletableFuture<>()))
            .toList();
    waits.sent(4, watchers);
    // An answer in two parts counts as one.
    Settled.Builder first = Settled.newBuilder().setSequence(4).setMore(true);
    first.addAnswers(answer(7, 0, 0, VerdictResult.VERDICT_RESULT_STALE));
    first.addAnswers(answer(8, 0, 99, VerdictResult.VERDICT_RESULT_FENCED));
    assertTrue(waits.settled(first.build()).isEmpty());
    Settled.Builder second = Settled.newBuilder().setSequence(4);
    second.addAnswers(answer(7, 1, 1, VerdictResult.VERDICT_RESULT_DUPLICATE));
    second.addAnswers(answer(7, 3, 99, VerdictResult.VERDICT_RESULT_FENCED));
    waits.settled(second.build()).forEach(Waits.Over::end);
    isNot(watchers.get(0).durable(), Event.Kind.STALE);
    isNot(watchers.get(3).durable(), Event.Kind.FENCED);
    watchers.get(1).durable().get(0, TimeUnit.SECONDS);
    watchers.get(2).durable().get(0, TimeUnit.SECONDS);
    assertTrue(waits.isEmpty(), "it is remembered for ever");
  }

  private static VerdictAnswer answer(long lane, long first, long last, VerdictResult result) {
    return VerdictAnswer.newBuilder().setLane(lane).setFirstOffset(first).setLastOffset(last).setResult(result).build();
  }

  @Test
  void waitEndsWithTheStream() throws Exception {
    Running running = start(options());
    var stream = accept();
    stream.batch(7, 0);
    stream.settle();
    stream.fail(Status.UNAVAILABLE.asException());
    FakeGateway.eventually(() -> got.containsKey(0L), "not handled");
    isNot(got.get(0L), null);
    stream = accept();
    FakeGateway.eventually(() -> running.events(Event.Opened.class).size() == 2, "not open again");
    running.stop(stream);
  }

  @Test
  void whatWasNotSentIsWaitedForOverAReconnect() throws Exception {
    Settler settler = new Settler(run -> {}, true);
    settler.begin(List.of());
    Lane lane = settler.lane(7, "orders", 0, 1);
    var of = new Run.HandOver(lane, 1, 1);
    Run first = new Run(of, 0, 0);
    Run second = new Run(of, 1, 1);
    settler.handed(List.of(first, second));
    var lost = settler.answerDurably(first, Verdict.ACKED);
    var kept = settler.answerDurably(second, Verdict.ACKED);
    settler.end(true);
    settler.manifest();
    settler.begin(List.of(FakeGateway.answer(1, 1, ResumeResult.RESUME_RESULT_KEPT, 8)));
    isNot(lost, null);
    Gathering.Taken taken = settler.take();
    var waiting = Waits.watching(Writer.merged(taken.answers()), Waits.byRecord(taken.watchers()));
    assertEquals(List.of(second), waiting.stream().map(Waits.Watcher::run).toList());
    // What does not get out is waited for again.
    settler.waiting(1, waiting);
    settler.waiting(1, List.of());
    settler.restore(taken.answers(), waiting);
    settler.waiting(2, settler.take().watchers());
    settler.confirmed(Settled.newBuilder().setSequence(2).build());
    kept.get(FakeGateway.PATIENCE, TimeUnit.SECONDS);
  }

  @Test
  void goodbyeWaitsForConfirmations() throws Exception {
    Running running = start(options().closeTimeout(Duration.ofSeconds(FakeGateway.PATIENCE)));
    var stream = accept();
    stream.batch(7, 0);
    var settle = stream.settle();
    running.subscriber().stop();
    SubscribeRequest early = stream.receive();
    while (early != null) {
      assertTrue(early.hasCredit(), "it did not wait");
      early = stream.receiveWithin(100);
    }
    stream.settled(settle);
    stream.goodbye();
    running.end();
    isDurable(0);
  }

  @Test
  void goodbyeDoesNotWaitForEver() throws Exception {
    Running running = start(options().closeTimeout(Duration.ofMillis(500)));
    var stream = accept();
    stream.batch(7, 0);
    stream.settle();
    running.subscriber().stop();
    stream.goodbye();
    running.end();
    isNot(got.get(0L), null);
  }

  @Test
  void withoutTheOptionItIsOverAtOnce() throws Exception {
    CompletableFuture<String> words = new CompletableFuture<>();
    Running running =
        new Running(
            Running.options(gateway),
            1,
            delivery ->
                words.complete(
                    delivery.ackDurably().handle((done, error) -> error.getMessage()).join()
                        + delivery.ackDurably().handle((done, error) -> error.getMessage()).join()));
    var stream = gateway.accept(FakeGateway.settings().build());
    stream.batch(7, 0);
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_ACKED, stream.verdicts(1).get(0).getOutcome());
    String told = words.get(FakeGateway.PATIENCE, TimeUnit.SECONDS);
    assertTrue(told.contains("did not ask") && told.contains("before"), told);
    running.stop(stream);
  }
}
