package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Duration;
import dev.ackgate.v1.Drain;
import dev.ackgate.v1.DrainReason;
import dev.ackgate.v1.Extend;
import dev.ackgate.v1.Ping;
import dev.ackgate.v1.Record;
import dev.ackgate.v1.ResumeResult;
import dev.ackgate.v1.Settings;
import dev.ackgate.v1.SubscribeResponse;
import dev.ackgate.v1.VerdictAnswer;
import dev.ackgate.v1.VerdictResult;
import io.grpc.Status;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
final class SessionsTest {
  private FakeGateway gateway;

  @BeforeEach
  void serve() throws IOException {
    gateway = new FakeGateway();
  }

  @AfterEach
  void end() throws InterruptedException {
    gateway.close();
  }

  private static Settings settings() {
    return FakeGateway.settings().build();
  }

  private static Duration millis(int millis) {
    return Duration.newBuilder().setNanos(millis * 1_000_000).build();
  }

  private static void cut(FakeGateway.Stream stream) {
    stream.fail(Status.UNAVAILABLE.withDescription("the line is cut").asRuntimeException());
  }

  /**
   * Of six records, three of which are begun, the stream breaks: one that is begun is kept, one has
   * its verdict, one is lost; of the others one is kept.
   */
  @Test
  void brokenStreamIsGoneOnWith() throws Exception {
    CountDownLatch begun = new CountDownLatch(3);
    CountDownLatch finish = new CountDownLatch(1);
    Running running =
        new Running(
            Running.options(gateway),
            3,
            delivery -> {
              begun.countDown();
              if (delivery.offset() < 3) {
                finish.await();
              }
            });
    var stream = gateway.accept(settings());
    stream.batch(7, 0, 1, 2, 3, 4, 5);
    assertTrue(begun.await(FakeGateway.PATIENCE, TimeUnit.SECONDS));
    cut(stream);
    stream =
        gateway.accept(
            settings(),
            FakeGateway.answer(0, 0, ResumeResult.RESUME_RESULT_KEPT, 9),
            FakeGateway.answer(1, 1, ResumeResult.RESUME_RESULT_SETTLED, 0),
            FakeGateway.answer(2, 2, ResumeResult.RESUME_RESULT_LOST, 0),
            FakeGateway.answer(4, 4, ResumeResult.RESUME_RESULT_KEPT, 9));
    assertEquals("token", stream.open.getResume().getToken());
    assertEquals("me", stream.open.getSubscriberId());
    assertEquals(1, stream.open.getResume().getHeldCount());
    var held = stream.open.getResume().getHeld(0);
    assertEquals(List.of(0L, 5L, 1L), List.of(held.getFirstOffset(), held.getLastOffset(), held.getEpoch()));
    // Another lane that has the number which the old one had.
    stream.send(
        SubscribeResponse.newBuilder()
            .setBatch(
                dev.ackgate.v1.Batch.newBuilder()
                    .setLane(7)
                    .setTopic("others")
                    .setEpoch(1)
                    .addRecords(Record.newBuilder().setOffset(2))));
    FakeGateway.eventually(() -> running.events(Event.Opened.class).size() == 2, "not open again");
    assertEquals(2, running.events(Event.Opened.class).get(1).kept());
    finish.countDown();
    Set<String> answered = new TreeSet<>();
    stream.verdicts(3).forEach(verdict -> answered.add(verdict.getLane() + "/" + verdict.getFirstOffset()));
    assertEquals(Set.of("7/2", "9/0", "9/4"), answered);
    // The handlers of what is settled and of what is lost are told that they came too late.
    FakeGateway.eventually(() -> running.events(Event.Problem.class).size() == 2, "not told");
    for (Event.Problem problem : running.events(Event.Problem.class)) {
      assertEquals(List.of("orders", Event.Kind.LOST), List.of(problem.topic(), problem.kind()));
    }
    running.stop(stream);
  }

  @Test
  void drainFinishesAndConnectsAgain() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch finish = new CountDownLatch(1);
    Running running =
        new Running(
            Running.options(gateway),
            1,
            delivery -> {
              begun.countDown();
              finish.await();
            });
    var stream = gateway.accept(settings());
    stream.batch(7, 0);
    assertTrue(begun.await(FakeGateway.PATIENCE, TimeUnit.SECONDS));
    stream.send(
        SubscribeResponse.newBuilder()
            .setDrain(Drain.newBuilder().setReason(DrainReason.DRAIN_REASON_CONNECTION_AGE)));
    assertNull(stream.receiveWithin(50), "work goes on");
    finish.countDown();
    stream.verdicts(1);
    stream.goodbye();
    assertEquals("CONNECTION_AGE", running.events(Event.Drained.class).get(0).reason());
    stream = gateway.accept(settings());
    assertFalse(stream.open.hasResume(), "nothing was left to go on with");
    // The goodbye was for the first stream alone.
    stream.batch(1, 1);
    stream.verdicts(1);
    running.stop(stream);
  }

  @Test
  void silentGatewayIsLeft() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var stream = gateway.accept(FakeGateway.settings().setPingInterval(millis(500)).build());
    // Signs of life keep it, for longer than the silence that ends it.
    for (int i = 0; i < 6; i++) {
      Thread.sleep(250);
      stream.send(SubscribeResponse.newBuilder().setPing(Ping.getDefaultInstance()));
    }
    assertTrue(running.events(Event.Disconnected.class).isEmpty(), "lost although it pinged");
    stream = gateway.accept(settings());
    assertEquals(Status.Code.UNAVAILABLE, running.events(Event.Disconnected.class).get(0).error().code());
    stream.batch(1, 0);
    stream.verdicts(1);
    running.stop(stream);
  }

  @Test
  void beatIsSentOnAQuietStream() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var stream = gateway.accept(FakeGateway.settings().setLeaseBeat(millis(20)).build());
    for (int i = 0; i < 3; i++) {
      assertTrue(stream.receive().hasBeat());
    }
    running.stop(stream);
  }

  /** What is in hand is extended, begun or not, until the gateway refuses; then it is not asked again. */
  @Test
  void deadlinesAreExtendedWhileInHand() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    Running running = new Running(Running.options(gateway), 1, delivery -> finish.await());
    var stream = gateway.accept(FakeGateway.settings().setAckDeadline(millis(150)).build());
    stream.batch(7, 0, 1, 2);
    for (int i = 0; i < 3; i++) {
      Extend extend = stream.receive().getExtend();
      assertEquals(millis(150), extend.getBy());
      assertEquals(1, extend.getExtensionsCount());
      assertEquals(2, extend.getExtensions(0).getLastOffset());
    }
    var refused = VerdictAnswer.newBuilder().setLane(7).setFirstOffset(1).setLastOffset(2);
    refused.setResult(VerdictResult.VERDICT_RESULT_EXPIRED);
    var settled = dev.ackgate.v1.Settled.newBuilder().setSequence(Writer.EXTEND_BIT | 1).addAnswers(refused);
    stream.send(SubscribeResponse.newBuilder().setSettled(settled));
    boolean alone = false;
    for (int i = 0; i < 100 && !alone; i++) {
      alone = !stream.receive().getExtend().getExtensions(0).hasLastOffset();
    }
    assertTrue(alone, "it asks again for what was refused");
    finish.countDown();
    stream.verdicts(3);
    running.stop(stream);
    Stats stats = running.subscriber().stats();
    assertEquals(List.of(2L, 0L), List.of(stats.refused(), stats.problems()));
  }

  @Test
  void verdictThatChangedNothingIsTold() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var stream = gateway.accept(settings());
    stream.batch(7, 0, 1);
    stream.verdicts(2);
    var stale = VerdictAnswer.newBuilder().setLane(7).setFirstOffset(0).setLastOffset(1);
    stale.setResult(VerdictResult.VERDICT_RESULT_STALE);
    stream.send(
        SubscribeResponse.newBuilder()
            .setSettled(dev.ackgate.v1.Settled.newBuilder().setSequence(1).addAnswers(stale)));
    var want = new Event.Problem("orders", 0, 0, 1, Event.Kind.STALE, "");
    FakeGateway.eventually(() -> running.events(Event.Problem.class).equals(List.of(want)), "not told");
    running.stop(stream);
  }

  @Test
  void goodbyeThatIsNotAnsweredIsAnError() throws Exception {
    var options = Running.options(gateway).closeTimeout(java.time.Duration.ofMillis(50));
    Running running = new Running(options, 1, delivery -> {});
    gateway.accept(settings());
    running.subscriber().stop();
    var error = assertInstanceOf(AckgateException.class, running.end());
    assertEquals(Status.Code.DEADLINE_EXCEEDED, error.code());
  }

  @Test
  void onlyOneMessageIsAskedForAtATime() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    Running running = new Running(Running.options(gateway).credit(1, 1 << 20), 1, delivery -> finish.await());
    var stream = gateway.accept(settings());
    // The gateway goes beyond the credit: one batch is begun, one waits, and the third is not taken in.
    for (int i = 0; i < 20; i++) {
      stream.batch(7, i);
    }
    FakeGateway.eventually(() -> received(running) >= 2, "nothing came");
    assertNull(stream.receiveWithin(200));
    assertTrue(received(running) <= 4, () -> received(running) + " records were taken in");
    finish.countDown();
    stream.verdicts(20);
    running.stop(stream);
  }

  private static long received(Running running) {
    return running.opened.join().stats().records();
  }
}
