package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import dev.ackgate.v1.Drain;
import dev.ackgate.v1.DrainReason;
import dev.ackgate.v1.SubscribeResponse;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Which gateway is reached, and what is said of those that are not. */
@Timeout(60)
final class ReachTest {
  private final List<FakeGateway> served = new ArrayList<>();
  @TempDir private Path folder;

  private FakeGateway serve() throws IOException {
    served.add(new FakeGateway());
    return served.get(served.size() - 1);
  }

  private FakeGateway serve(ServerCredentials credentials) throws IOException {
    served.add(new FakeGateway(credentials));
    return served.get(served.size() - 1);
  }

  @AfterEach
  void stop() throws InterruptedException {
    for (FakeGateway gateway : served) {
      gateway.close();
    }
  }

  /** An address where nobody listens. */
  private static String nobody() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return "127.0.0.1:" + socket.getLocalPort();
    }
  }

  private static Options options(String... addresses) {
    return Subscriber.builder(List.of(addresses), "orders").backoff(Duration.ofMillis(1), Duration.ofMillis(20));
  }

  /** Runs it until it ends by itself, with two retries at most. */
  private static AckgateException end(Options options, boolean retried) throws Exception {
    Running running = new Running(options.maxRetries(2), 1, delivery -> {});
    AckgateException error = assertInstanceOf(AckgateException.class, running.end());
    assertEquals(retried ? 2 : 0, running.events(Event.Disconnected.class).size(), error::toString);
    return error;
  }

  private static void says(AckgateException error, String words) {
    assertTrue(error.getMessage().contains(words), error::toString);
  }

  @Test
  void certificateThatDoesNotFitEndsIt() throws Exception {
    Authority own = new Authority(folder.resolve("own"));
    Authority other = new Authority(folder.resolve("other"));
    FakeGateway gateway = serve(own.server(false));
    String address = "https://" + gateway.address();
    Tls trusting = Tls.trusting(other.pem()).withServerName("gateway.test");
    AckgateException untrusted = end(options(address).tls(trusting), false);
    assertInstanceOf(TlsException.class, untrusted);
    says(untrusted, "no authority that is trusted");
    says(untrusted, gateway.address());
    assertFalse(untrusted.isRetryable());
    assertEquals(address, untrusted.address());
    says(end(options(address).tls(Tls.trusting(own.pem()).withServerName("else.test")), false), "not for this name");
    says(end(options(address).tls(Tls.trusting(own.pem())), false), "not for this name");
  }

  @Test
  void tlsToAPlainPortEndsIt() throws Exception {
    Tls tls = Tls.trusting(new Authority(folder).pem());
    AckgateException error = end(options("https://" + serve().address()).tls(tls), false);
    says(error, "does not speak TLS: use http://");
  }

  @Test
  void plainTextToATlsPortSaysWhatIsProbablyWrong() throws Exception {
    AckgateException error = end(options(serve(new Authority(folder).server(false)).address()), true);
    // It may as well be a gateway that goes down.
    says(error, "address begins with https://");
  }

  @Test
  void missingCertificateSaysWhatIsWanted() throws Exception {
    Authority own = new Authority(folder);
    FakeGateway gateway = serve(own.server(true));
    Tls tls = Tls.trusting(own.pem()).withServerName("gateway.test");
    Running running = new Running(options("https://" + gateway.address()).tls(tls).maxRetries(2), 1, delivery -> {});
    says(assertInstanceOf(AckgateException.class, running.end()), "certificate of this side");
  }

  @Test
  void nobodyThereIsTriedAgain() throws Exception {
    Tls tls = Tls.trusting(new Authority(folder).pem());
    assertFalse(end(options("https://" + nobody()).tls(tls), true) instanceof TlsException);
  }

  @Test
  void recordsAreWrittenThroughTheFirstThatCanBeReached() throws Exception {
    Outgoing empty = new Outgoing("orders", null, new byte[0], List.of(new Header("a", null)), 3);
    List<Written> written =
        Publisher.to(nobody(), serve().address()).publishBatch(List.of(empty, new Outgoing("orders", null)));
    assertTrue(written.get(0).isWritten());
    assertEquals(List.of(3, 0L), List.of(written.get(0).partition().getAsInt(), written.get(0).offset().getAsLong()));
    assertEquals(List.of("REFUSED", "no value"), List.of(written.get(1).error(), written.get(1).detail()));
    assertTrue(written.get(1).offset().isEmpty());
    assertThrows(AckgateException.class, () -> Publisher.to("a:1").publishBatch(List.of()));
    Authority own = new Authority(folder);
    Publisher secure = Publisher.to("https://" + serve(own.server(false)).address()).tls(Tls.trusting(own.pem()));
    assertThrows(TlsException.class, () -> secure.publishBatch(List.of(empty)));
  }

  @Test
  void addressesAreTriedInTurn() throws Exception {
    FakeGateway first = serve();
    FakeGateway second = serve();
    Running running = new Running(options(nobody(), first.address(), second.address()), 1, delivery -> {});
    var stream = first.next();
    stream.receive();
    stream.fail(Status.UNAVAILABLE.asException());
    stream = second.accept(FakeGateway.settings().build());
    stream.batch(7, 0);
    stream.verdicts(1);
    assertEquals(second.address(), running.subscriber().address());
    running.stop(stream);
  }

  @Test
  void whatIsInHandIsAskedForWhereItCameFrom() throws Exception {
    FakeGateway first = serve();
    FakeGateway second = serve();
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch finish = new CountDownLatch(1);
    Running running =
        new Running(
            options(first.address(), second.address()),
            1,
            delivery -> {
              begun.countDown();
              finish.await();
            });
    var stream = first.accept(FakeGateway.settings().build());
    stream.batch(7, 0);
    assertTrue(begun.await(FakeGateway.PATIENCE, TimeUnit.SECONDS));
    stream.fail(Status.UNAVAILABLE.asException());
    var again = first.next();
    assertEquals("token", again.receive().getOpen().getResume().getToken());
    // It is not there any more.
    again.fail(Status.UNAVAILABLE.asException());
    stream = second.accept(FakeGateway.settings().build());
    FakeGateway.eventually(() -> running.events(Event.Opened.class).size() == 2, "not open again");
    finish.countDown();
    running.stop(stream);
  }

  @Test
  void gatewayThatStopsIsLeftAndAnOldConnectionIsNot() throws Exception {
    FakeGateway first = serve();
    FakeGateway second = serve();
    Running running = new Running(options(first.address(), second.address()), 1, delivery -> {});
    drained(first, DrainReason.DRAIN_REASON_CONNECTION_AGE);
    drained(first, DrainReason.DRAIN_REASON_GATEWAY_STOPS);
    drained(second, DrainReason.DRAIN_REASON_GATEWAY_STOPS);
    var stream = first.accept(FakeGateway.settings().build());
    stream.batch(7, 0);
    stream.verdicts(1);
    running.stop(stream);
  }

  private static void drained(FakeGateway gateway, DrainReason reason) throws InterruptedException {
    var stream = gateway.accept(FakeGateway.settings().build());
    stream.send(SubscribeResponse.newBuilder().setDrain(Drain.newBuilder().setReason(reason)));
    stream.goodbye();
  }

  @Test
  void refusalEndsItOnceEveryAddressRefuses() throws Exception {
    FakeGateway first = serve();
    FakeGateway second = serve();
    Running running = new Running(options(first.address(), second.address()), 1, delivery -> {});
    first.next().fail(Status.NOT_FOUND.asException());
    second.next().fail(Status.PERMISSION_DENIED.asException());
    AckgateException error = assertInstanceOf(AckgateException.class, running.end());
    assertEquals(List.of(Status.Code.PERMISSION_DENIED, second.address()), List.of(error.code(), error.address()));
  }

  @Test
  void supersededOneDoesNotGoElsewhere() throws Exception {
    FakeGateway first = serve();
    FakeGateway second = serve();
    Running running = new Running(options(first.address(), second.address()), 1, delivery -> {});
    var stream = first.accept(FakeGateway.settings().build());
    var details = com.google.rpc.Status.newBuilder().setCode(Status.Code.ABORTED.value());
    details.addDetails(Any.pack(ErrorInfo.newBuilder().setReason("SUPERSEDED").build()));
    stream.fail(StatusProto.toStatusException(details.build()));
    assertEquals("SUPERSEDED", assertInstanceOf(AckgateException.class, running.end()).reason());
  }

  @Test
  void badAddressesAreToldAtOnce() {
    for (List<String> wrong : List.of(List.<String>of(), List.of("a:1", "ftp://b"), Collections.nCopies(65, "a"))) {
      assertThrows(AckgateException.class, () -> Subscriber.builder(wrong, "orders").open(), wrong::toString);
    }
  }

  @Test
  void adHocTakesThePlaceOfAName() {
    SubscriptionOptions shape =
        new SubscriptionOptions()
            .broadcast(true)
            .order(SubscriptionOptions.Order.LANE)
            .onReject(SubscriptionOptions.Rejected.DROP)
            .startAt(Instant.ofEpochSecond(1_767_312_000))
            .maxAttempts(3)
            .minAge(Duration.ofMillis(1_500));
    var wire = Subscriber.adHoc(List.of("a"), "main", List.of("a", "b"), "nightly").expect(shape).message().build();
    assertEquals("", wire.getSubscription());
    assertFalse(wire.hasExpect());
    assertEquals(List.of("main", "nightly"), List.of(wire.getAdHoc().getCluster(), wire.getAdHoc().getGroup()));
    assertEquals(List.of("a", "b"), wire.getAdHoc().getTopicsList());
    var asked = wire.getAdHoc().getOptions();
    assertEquals(List.of(2, 3, 2), List.of(asked.getDeliveryValue(), asked.getOrderValue(), asked.getOnRejectValue()));
    assertEquals(3, asked.getMaxAttempts());
    assertFalse(asked.hasMaxDeliveries());
    assertEquals(1_767_312_000, asked.getStart().getTimestamp().getSeconds());
    assertEquals(500_000_000, asked.getMinAge().getNanos());
    var named = Subscriber.builder("a", "orders").expect(new SubscriptionOptions().startEarliest()).message();
    assertTrue(named.getExpect().getStart().hasEarliest());
    assertThrows(AckgateException.class, () -> new SubscriptionOptions().maxAttempts(0));
    for (Options wrong :
        List.of(
            Subscriber.adHoc(List.of("a"), "", List.of("a"), "g"),
            Subscriber.adHoc(List.of("a"), "main", List.of(), "g"),
            Subscriber.adHoc(List.of("a"), "main", List.of(""), "g"),
            Subscriber.adHoc(List.of("a"), "main", List.of("a"), ""))) {
      assertThrows(AckgateException.class, wrong::open);
    }
  }
}
