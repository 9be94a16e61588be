package dev.ackgate.client;

import com.google.protobuf.Duration;
import dev.ackgate.v1.Drain;
import dev.ackgate.v1.DrainReason;
import dev.ackgate.v1.GatewayServiceGrpc;
import dev.ackgate.v1.Opened;
import dev.ackgate.v1.Settings;
import dev.ackgate.v1.SubscribeRequest;
import dev.ackgate.v1.SubscribeResponse;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * One stream, from connecting to its end. gRPC's threads read, one message at a time: the next one is
 * asked for when one has been handled. The subscriber's thread is the only one that sends. Knows
 * nothing of earlier or later sessions.
 */
final class Session implements ClientResponseObserver<SubscribeRequest, SubscribeResponse> {
  /** What the library's own limit has beyond what the gateway is told. */
  private static final int MESSAGE_SLACK = 64 << 10;

  /** How often the writer looks whether the stream is alive. */
  private static final long WATCH_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  /** How long the library may take to notice that a stream is over. */
  private static final long END_SECONDS = 5;

  /**
   * How it ended.
   *
   * @param error null after a goodbye, or if nothing is left for the subscriber
   * @param drained the gateway asked for it, and everything was answered
   * @param useful records came, or it lasted
   * @param opened there was a stream
   * @param stops it drained because the gateway stops
   */
  record End(AckgateException error, boolean drained, boolean useful, boolean opened, boolean stops) {}

  private final Sessions sessions;
  private final Options options;
  private final Settler settler;
  private final CountDownLatch opened = new CountDownLatch(1);
  private final CountDownLatch over = new CountDownLatch(1);
  private ClientCallStreamObserver<SubscribeRequest> call;

  private volatile Settings settings;
  private volatile long lastHeard;
  private volatile boolean handling;
  private volatile boolean draining;
  private volatile boolean stops;
  private volatile boolean useful;

  /** Until when the end is awaited after the goodbye. Both are the writing thread's. */
  private long closeBy;

  private boolean closing;

  /** Until when durable confirmations are awaited before the goodbye; 0: they are not. */
  private long confirmBy;

  /** Why this side ended it. Guarded by this. */
  private AckgateException own;

  /** What the stream ended with; null: with OK. Read when it is over. */
  private volatile Throwable failure;

  Session(Sessions sessions, Options options, Settler settler) {
    this.sessions = sessions;
    this.options = options;
    this.settler = settler;
  }

  /** Runs it to its end. */
  End run(Connection connection) throws InterruptedException {
    long begun = System.nanoTime();
    ManagedChannel channel;
    try {
      channel = connection.connect(Math.toIntExact(options.maxMessageBytes + MESSAGE_SLACK));
    } catch (AckgateException e) {
      return new End(e.at(connection.address()), false, false, false, false);
    }
    try {
      GatewayServiceGrpc.newStub(channel).subscribe(this);
      call.onNext(SubscribeRequest.newBuilder().setOpen(sessions.openMessage()).build());
      awaitOpened();
      if (settings != null) {
        Writer writer = new Writer(settler, this::send, sessions::sent, settings);
        write(writer);
      }
      if (!over.await(END_SECONDS, TimeUnit.SECONDS)) {
        cancel(new AckgateException(Status.Code.INTERNAL, "the stream did not end when it was cancelled"));
      }
    } finally {
      cancel(Sessions.CLOSED);
      channel.shutdownNow();
      channel.awaitTermination(END_SECONDS, TimeUnit.SECONDS);
    }
    boolean lasted = System.nanoTime() - begun > options.maxBackoff.toNanos();
    return end(connection, useful || (settings != null && lasted));
  }

  private void awaitOpened() throws InterruptedException {
    long until = System.nanoTime() + options.openTimeout.toNanos();
    while (!opened.await(WATCH_NANOS, TimeUnit.NANOSECONDS)) {
      if (over.getCount() == 0) {
        return;
      }
      if (sessions.isClosing()) {
        cancel(Sessions.CLOSED);
      } else if (System.nanoTime() - until > 0) {
        cancel(
            new AckgateException(
                Status.Code.DEADLINE_EXCEEDED, "the gateway did not open the stream within " + options.openTimeout));
      }
    }
  }

  /** Sends until the stream is over. */
  private void write(Writer writer) throws InterruptedException {
    while (isAlive()) {
      long wait = writer.step(System.nanoTime(), sessions.isExtending());
      settler.awaitWork(Math.min(wait, WATCH_NANOS));
    }
  }

  /** Ends the stream if the gateway is silent or does not answer the goodbye. Returns whether it goes on. */
  private boolean isAlive() {
    long now = System.nanoTime();
    if (!closing && sessions.isClosing()) {
      closing = true;
      // Before the goodbye so long for confirmations.
      int times = options.confirm == Confirm.DURABLE ? 2 : 1;
      closeBy = now + times * options.closeTimeout.toNanos();
      settler.close();
    }
    if (settler.isConfirming()) {
      if (confirmBy == 0) {
        confirmBy = now + options.closeTimeout.toNanos();
      } else if (now - confirmBy > 0) {
        settler.hurry();
      }
    }
    long silence = 2 * nanos(settings.getPingInterval());
    if (closing && now - closeBy > 0) {
      cancel(
          new AckgateException(
              Status.Code.DEADLINE_EXCEEDED,
              "the gateway did not end the stream within " + options.closeTimeout + " of the goodbye"));
    } else if (silence > 0 && !handling && now - lastHeard > silence) {
      cancel(
          new AckgateException(
              Status.Code.UNAVAILABLE, "no sign of life from the gateway for " + java.time.Duration.ofNanos(silence)));
    }
    return over.getCount() > 0 && !isCancelled();
  }

  /** Hands a message to the stream, when it has room. Returns whether that was done. */
  private boolean send(SubscribeRequest message) throws InterruptedException {
    boolean alive = isAlive();
    while (alive && !call.isReady()) {
      settler.awaitWork(WATCH_NANOS);
      alive = isAlive();
    }
    if (!alive) {
      return false;
    }
    try {
      call.onNext(message);
      if (message.hasClose()) {
        call.onCompleted();
      }
      return true;
    } catch (IllegalStateException e) {
      // The stream ended meanwhile.
      return false;
    }
  }

  private synchronized void cancel(AckgateException why) {
    if (own == null && over.getCount() > 0) {
      own = why;
      call.cancel(why.getMessage(), why);
    }
  }

  private synchronized End end(Connection connection, boolean isUseful) {
    boolean isOpen = settings != null;
    AckgateException error = own;
    if (error == null && failure != null) {
      error = AckgateException.of(failure);
      if (!isOpen) {
        error = Handshake.explained(error, connection);
      }
    }
    // With OK, and only so: an end without a status is an error.
    boolean isEnd = sessions.isClosing() || (options.untilDrained && !draining);
    if (error == null && !isEnd && !draining) {
      error = new AckgateException(Status.Code.UNAVAILABLE, "the gateway ended the stream");
    }
    if (error != null && error != Sessions.CLOSED) {
      error.at(connection.address());
    }
    return new End(error, error == null && !isEnd, isUseful, isOpen, stops);
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<SubscribeRequest> stream) {
    call = stream;
    stream.disableAutoRequestWithInitial(1);
    stream.setOnReadyHandler(settler::nudge);
  }

  @Override
  public void onNext(SubscribeResponse message) {
    handling = true;
    try {
      if (!isCancelled()) {
        take(message);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      cancel(new AckgateException(Status.Code.CANCELLED, "the reading thread was interrupted"));
    } finally {
      lastHeard = System.nanoTime();
      handling = false;
    }
    call.request(1);
  }

  private void take(SubscribeResponse message) throws InterruptedException {
    if (settings == null) {
      first(message);
      return;
    }
    switch (message.getResponseCase()) {
      case BATCH -> {
        useful = true;
        sessions.received(message.getBatch(), this::isCancelled);
      }
      case SETTLED -> sessions.settled(message.getSettled());
      case DRAIN -> {
        draining = true;
        stops = message.getDrain().getReason() == DrainReason.DRAIN_REASON_GATEWAY_STOPS;
        sessions.tell(new Event.Drained(reason(message.getDrain())));
        settler.drain();
      }
      // A sign of life, what is only informative, and kinds that this version does not know.
      default -> {}
    }
  }

  private void first(SubscribeResponse message) {
    if (!message.hasOpened()) {
      cancel(
          new AckgateException(
              Status.Code.FAILED_PRECONDITION, "the gateway broke the protocol: the first message is not Opened"));
      return;
    }
    Opened first = message.getOpened();
    lastHeard = System.nanoTime();
    sessions.opened(first);
    settings = first.getSettings();
    opened.countDown();
  }

  private synchronized boolean isCancelled() {
    return own != null;
  }

  @Override
  public void onError(Throwable error) {
    failure = error;
    ended();
  }

  @Override
  public void onCompleted() {
    ended();
  }

  private void ended() {
    over.countDown();
    opened.countDown();
    settler.nudge();
  }

  /** 0 for a duration that is absent or not above 0. */
  static long nanos(Duration duration) {
    return Math.max(0, TimeUnit.SECONDS.toNanos(duration.getSeconds()) + duration.getNanos());
  }

  /** Why the gateway ends the stream; empty if it does not say, or if this version does not know. */
  private static String reason(Drain drain) {
    return switch (drain.getReason()) {
      case DRAIN_REASON_GATEWAY_STOPS -> "GATEWAY_STOPS";
      case DRAIN_REASON_CONNECTION_AGE -> "CONNECTION_AGE";
      case DRAIN_REASON_UNSPECIFIED, UNRECOGNIZED -> "";
    };
  }
}
