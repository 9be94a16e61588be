package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.ackgate.v1.Header;
import dev.ackgate.v1.Record;
import dev.ackgate.v1.Redelivery;
import dev.ackgate.v1.SubscribeRequest;
import dev.ackgate.v1.SubscribeResponse;
import dev.ackgate.v1.Verdict;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
final class SubscriberTest {
  private FakeGateway gateway;

  @BeforeEach
  void serve() throws IOException {
    gateway = new FakeGateway();
  }

  /** Nothing of a subscriber is left when it has ended. */
  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    gateway.close();
    FakeGateway.eventually(() -> threads().isEmpty(), "threads are left: " + threads());
  }

  private static Set<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("ackgate-"))
        .collect(Collectors.toSet());
  }

  @Test
  void howAHandlerEndsIsTheVerdict() throws Exception {
    Running running =
        new Running(
            Running.options(gateway),
            1,
            delivery -> {
              switch ((int) delivery.offset()) {
                case 1 -> throw new RejectException("bad", "no order");
                case 2 -> throw new RetryException(Duration.ZERO, "busy");
                case 3 -> throw new ReleaseException();
                case 4 -> throw new IOException("oops");
                case 5 -> throw new AssertionError("never mind");
                default -> {}
              }
            });
    var stream = gateway.accept(FakeGateway.settings().build());
    assertTrue(stream.open.getResumable());
    assertFalse(stream.open.hasResume());
    stream.batch(7, 0, 1, 2, 3, 4, 5);
    Map<Long, Verdict> got = new HashMap<>();
    stream.verdicts(6).forEach(verdict -> got.put(verdict.getFirstOffset(), verdict));
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_ACKED, got.get(0L).getOutcome());
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_REJECTED, got.get(1L).getOutcome());
    assertEquals("bad no order", got.get(1L).getCode() + " " + got.get(1L).getReason());
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_FAILED, got.get(2L).getOutcome());
    assertTrue(got.get(2L).hasRetryAfter());
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_RELEASED, got.get(3L).getOutcome());
    for (long offset : new long[] {4, 5}) {
      assertEquals(dev.ackgate.v1.Outcome.OUTCOME_FAILED, got.get(offset).getOutcome());
      assertEquals("handler", got.get(offset).getCode());
      assertFalse(got.get(offset).hasRetryAfter());
    }
    assertEquals(List.of(7L, 1), List.of(got.get(0L).getLane(), got.get(0L).getDelivery()));
    running.stop(stream);
  }

  @Test
  void noMoreHandlersRunThanAllowed() throws Exception {
    AtomicInteger now = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    Running running =
        new Running(
            Running.options(gateway),
            4,
            delivery -> {
              most.accumulateAndGet(now.incrementAndGet(), Math::max);
              Thread.sleep(5);
              now.decrementAndGet();
            });
    var stream = gateway.accept(FakeGateway.settings().build());
    stream.batch(1, LongStream.range(0, 40).toArray());
    stream.verdicts(40);
    assertEquals(4, most.get());
    running.stop(stream);
  }

  @Test
  void stopFinishesWhatIsBegunAndGivesBackTheRest() throws Exception {
    CountDownLatch begun = new CountDownLatch(2);
    CountDownLatch finish = new CountDownLatch(1);
    Running running =
        new Running(
            Running.options(gateway),
            2,
            delivery -> {
              begun.countDown();
              finish.await();
            });
    var stream = gateway.accept(FakeGateway.settings().build());
    stream.batch(1, 0, 1, 2, 3, 4);
    assertTrue(begun.await(FakeGateway.PATIENCE, TimeUnit.SECONDS));
    running.subscriber().stop();
    SubscribeRequest request = stream.receive();
    assertTrue(request.hasCredit(), () -> "records were given back before the credit was taken back: " + request);
    assertEquals(0, request.getCredit().getRecords());
    Verdict released = stream.verdicts(3).get(0);
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_RELEASED, released.getOutcome());
    assertEquals(2, released.getFirstOffset());
    // What comes now is not begun either.
    stream.batch(1, 5);
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_RELEASED, stream.verdicts(1).get(0).getOutcome());
    finish.countDown();
    assertEquals(dev.ackgate.v1.Outcome.OUTCOME_ACKED, stream.verdicts(2).get(0).getOutcome());
    stream.goodbye();
    assertNull(running.end());
    Stats stats = running.subscriber().stats();
    assertEquals(List.of(2L, 4L, 0L), List.of(stats.acked(), stats.released(), stats.lost()));
  }

  @Test
  void refusalIsATypedException() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var status =
        com.google.rpc.Status.newBuilder()
            .setCode(Status.Code.NOT_FOUND.value())
            .setMessage("no such thing")
            .addDetails(Any.pack(ErrorInfo.newBuilder().setReason("UNKNOWN_SUBSCRIPTION").build()));
    gateway.next().fail(StatusProto.toStatusRuntimeException(status.build()));
    AckgateException error = assertInstanceOf(AckgateException.class, running.end());
    assertEquals(Status.Code.NOT_FOUND, error.code());
    assertEquals("UNKNOWN_SUBSCRIPTION", error.reason());
    assertEquals("no such thing", error.getMessage());
    assertFalse(error.isRetryable());
  }

  @Test
  void retryInfoIsTheLeastWait() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var delay = com.google.protobuf.Duration.newBuilder().setNanos(300_000_000);
    var status =
        com.google.rpc.Status.newBuilder()
            .setCode(Status.Code.UNAVAILABLE.value())
            .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
    gateway.next().fail(StatusProto.toStatusRuntimeException(status.build()));
    var stream = gateway.accept(FakeGateway.settings().build());
    Duration waited = running.events(Event.Disconnected.class).get(0).retryIn();
    assertTrue(waited.toMillis() >= 300, () -> "again in " + waited);
    running.stop(stream);
  }

  @Test
  void nullAndEmptyDiffer() throws Exception {
    BlockingQueue<Delivery> seen = new LinkedBlockingQueue<>();
    Running running = new Running(Running.options(gateway), 1, seen::add);
    var stream = gateway.accept(FakeGateway.settings().build());
    Record nulls =
        Record.newBuilder()
            .addHeaders(Header.newBuilder().setKey("h"))
            .addHeaders(Header.newBuilder().setKey("h").setValue(ByteString.EMPTY))
            .build();
    Record empty = Record.newBuilder().setOffset(1).setKey(ByteString.EMPTY).setValue(ByteString.EMPTY).build();
    var again = Redelivery.newBuilder().setFirstOffset(1).setLastOffset(1).setAttempt(2).setDelivery(3);
    var batch = dev.ackgate.v1.Batch.newBuilder().setLane(1).setTopic("orders").addRecords(nulls).addRecords(empty);
    stream.send(SubscribeResponse.newBuilder().setBatch(batch.addRedeliveries(again)));
    Delivery first = seen.poll(FakeGateway.PATIENCE, TimeUnit.SECONDS);
    Delivery second = seen.poll(FakeGateway.PATIENCE, TimeUnit.SECONDS);
    assertNull(first.key());
    assertNull(first.value());
    assertNull(first.headers().get(0).value());
    assertArrayEquals(new byte[0], first.header("h").orElseThrow().value());
    assertArrayEquals(new byte[0], second.key());
    assertArrayEquals(new byte[0], second.value());
    assertEquals(List.of(1, 1), List.of(first.attempt(), first.deliveryNumber()));
    assertEquals(List.of(2, 3), List.of(second.attempt(), second.deliveryNumber()));
    running.stop(stream);
  }

  @Test
  void messagesOfALaterProtocolArePassedOver() throws Exception {
    Running running = new Running(Running.options(gateway), 1, delivery -> {});
    var stream = gateway.accept(FakeGateway.settings().build());
    var field = UnknownFieldSet.Field.newBuilder().addLengthDelimited(ByteString.copyFromUtf8("new")).build();
    stream.send(
        SubscribeResponse.newBuilder()
            .setUnknownFields(UnknownFieldSet.newBuilder().addField(999, field).build()));
    stream.batch(7, 0);
    stream.verdicts(1);
    running.stop(stream);
  }

  @Test
  void acksGoOutAsRangesAndTheFirstAnswerCounts() throws Exception {
    var options = Running.options(gateway).untilDrained(true);
    var opening = new LinkedBlockingQueue<Subscriber>();
    Thread thread =
        new Thread(
            () -> {
              try {
                opening.add(options.open());
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    thread.start();
    var stream = gateway.accept(FakeGateway.settings().build());
    try (Subscriber subscriber = opening.poll(FakeGateway.PATIENCE, TimeUnit.SECONDS)) {
      stream.batch(7, 0, 1, 2, 3, 5);
      Batch batch = subscriber.receiveBatch().orElseThrow();
      batch.ackAll();
      batch.deliveries().get(0).reject("late", "the first answer counts");
      List<Verdict> verdicts = stream.verdicts(5);
      assertEquals(2, verdicts.size(), verdicts::toString);
      assertEquals(3, FakeGateway.Stream.last(verdicts.get(0)));
      stream.end();
      assertTrue(subscriber.receive().isEmpty(), "it ends with the stream");
    }
  }

  @Test
  void optionsOutOfRangeAreRefused() {
    for (Options options :
        List.of(
            Running.options(gateway).credit(0, 1),
            Running.options(gateway).maxMessageBytes(10),
            Running.options(gateway).ackDeadline(Duration.ofMillis(1)),
            Running.options(gateway).subscriberId("a\nb"),
            Subscriber.builder("ftp://host:1", "orders"),
            Subscriber.builder("http://host:1/path", "orders"),
            Running.options(gateway).tls(new Tls(null, java.nio.file.Path.of("x"), null, null)))) {
      var error = assertThrows(AckgateException.class, options::open);
      assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
    }
  }
}
