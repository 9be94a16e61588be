package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertNull;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A subscriber whose {@code run} goes on in the background. */
final class Running {
  final List<Event> events = new CopyOnWriteArrayList<>();
  final CompletableFuture<Subscriber> opened = new CompletableFuture<>();
  private final CompletableFuture<Throwable> result = new CompletableFuture<>();

  static Options options(FakeGateway gateway) {
    return Subscriber.builder(gateway.address(), "orders").backoff(Duration.ofMillis(1), Duration.ofMillis(20));
  }

  /** Opens and runs it. The stream is opened by the test meanwhile. */
  Running(Options options, int concurrency, Handler handler) {
    Thread thread =
        new Thread(
            () -> {
              try (Subscriber subscriber = options.listener(events::add).open()) {
                opened.complete(subscriber);
                subscriber.run(concurrency, handler);
                result.complete(null);
              } catch (Throwable e) {
                opened.completeExceptionally(e);
                result.complete(e);
              }
            },
            "test-run");
    thread.setDaemon(true);
    thread.start();
  }

  <E extends Event> List<E> events(Class<E> kind) {
    return events.stream().filter(kind::isInstance).map(kind::cast).toList();
  }

  Subscriber subscriber() throws InterruptedException, ExecutionException, TimeoutException {
    return opened.get(FakeGateway.PATIENCE, TimeUnit.SECONDS);
  }

  /** What run ended with; null: it returned. */
  Throwable end() throws InterruptedException, ExecutionException, TimeoutException {
    return result.get(FakeGateway.PATIENCE, TimeUnit.SECONDS);
  }

  /** Ends it gracefully, and asserts that it did so. */
  void stop(FakeGateway.Stream stream) throws Exception {
    subscriber().stop();
    stream.goodbye();
    assertNull(end());
  }
}
