package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import dev.ackgate.v1.GatewayServiceGrpc;
import dev.ackgate.v1.Open;
import dev.ackgate.v1.Opened;
import dev.ackgate.v1.OutgoingRecord;
import dev.ackgate.v1.PublishBatchRequest;
import dev.ackgate.v1.PublishBatchResponse;
import dev.ackgate.v1.PublishError;
import dev.ackgate.v1.Record;
import dev.ackgate.v1.ResumeAnswer;
import dev.ackgate.v1.ResumeResult;
import dev.ackgate.v1.Settings;
import dev.ackgate.v1.Settle;
import dev.ackgate.v1.Settled;
import dev.ackgate.v1.SubscribeRequest;
import dev.ackgate.v1.SubscribeResponse;
import dev.ackgate.v1.Verdict;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** A gateway of which a test plays the part, over a real connection. */
final class FakeGateway extends GatewayServiceGrpc.GatewayServiceImplBase implements AutoCloseable {
  /** How long a test waits for what is to happen. */
  static final long PATIENCE = 10;

  private final BlockingQueue<Stream> streams = new LinkedBlockingQueue<>();
  private final Server server;

  FakeGateway() throws IOException {
    this(InsecureServerCredentials.create());
  }

  FakeGateway(ServerCredentials credentials) throws IOException {
    server = Grpc.newServerBuilderForPort(0, credentials).addService(this).build().start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  @Override
  public StreamObserver<SubscribeRequest> subscribe(StreamObserver<SubscribeResponse> responses) {
    Stream stream = new Stream(responses);
    streams.add(stream);
    return stream;
  }

  /** Writes what has a value. */
  @Override
  public void publishBatch(PublishBatchRequest request, StreamObserver<PublishBatchResponse> responses) {
    PublishBatchResponse.Builder response = PublishBatchResponse.newBuilder();
    for (OutgoingRecord record : request.getRecordsList()) {
      var result = response.addResultsBuilder().setTopic(record.getTopic());
      if (record.hasPartition()) {
        result.setPartition(record.getPartition());
      }
      if (record.hasValue()) {
        result.setOffset(response.getResultsCount() - 1);
      } else {
        result.setError(PublishError.PUBLISH_ERROR_REFUSED).setDetail("no value");
      }
    }
    responses.onNext(response.build());
    responses.onCompleted();
  }

  @Override
  public void close() throws InterruptedException {
    server.shutdownNow();
    server.awaitTermination(PATIENCE, TimeUnit.SECONDS);
  }

  /** Waits for a stream. */
  Stream next() throws InterruptedException {
    Stream stream = streams.poll(PATIENCE, TimeUnit.SECONDS);
    assertNotNull(stream, "no stream came");
    return stream;
  }

  /** Waits for a stream and opens it with a resume token. */
  Stream accept(Settings settings, ResumeAnswer... answers) throws InterruptedException {
    Stream stream = next();
    stream.open = stream.receive().getOpen();
    Opened.Builder opened = Opened.newBuilder().setSession("s").setSubscriberId("me").setProtocolVersion(1);
    opened.setSettings(settings).setResumeToken("token").addAllResumed(List.of(answers));
    stream.send(SubscribeResponse.newBuilder().setOpened(opened));
    return stream;
  }

  /** The settings of a session unless a test says otherwise. */
  static Settings.Builder settings() {
    Duration minute = Duration.newBuilder().setSeconds(60).build();
    return Settings.newBuilder().setAckDeadline(minute).setPingInterval(minute).setMaxVerdicts(10_000);
  }

  static ResumeAnswer answer(long first, long last, ResumeResult result, long lane) {
    return ResumeAnswer.newBuilder()
        .setTopic("orders")
        .setFirstOffset(first)
        .setLastOffset(last)
        .setResult(result)
        .setLane(lane)
        .build();
  }

  static void eventually(BooleanSupplier holds, String otherwise) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
    while (!holds.getAsBoolean()) {
      assertTrue(System.nanoTime() < until, otherwise);
      Thread.sleep(5);
    }
  }

  /** One subscriber's stream, as the gateway sees it. */
  static final class Stream implements StreamObserver<SubscribeRequest> {
    private final StreamObserver<SubscribeResponse> responses;
    private final BlockingQueue<SubscribeRequest> requests = new LinkedBlockingQueue<>();
    Open open;

    Stream(StreamObserver<SubscribeResponse> responses) {
      this.responses = responses;
    }

    @Override
    public void onNext(SubscribeRequest request) {
      requests.add(request);
    }

    @Override
    public void onError(Throwable error) {}

    @Override
    public void onCompleted() {}

    void send(SubscribeResponse.Builder response) {
      responses.onNext(response.build());
    }

    /** Hands out records of partition 0 of `orders`, with values like their offsets. */
    void batch(long lane, long... offsets) {
      var batch = dev.ackgate.v1.Batch.newBuilder().setLane(lane).setTopic("orders").setEpoch(1);
      for (long offset : offsets) {
        batch.addRecords(Record.newBuilder().setOffset(offset).setValue(ByteString.copyFromUtf8("" + offset)));
      }
      send(SubscribeResponse.newBuilder().setBatch(batch));
    }

    /** Waits for verdicts, passing over other messages. */
    Settle settle() throws InterruptedException {
      SubscribeRequest request = receive();
      while (!request.hasSettle()) {
        request = receive();
      }
      return request.getSettle();
    }

    /** Answers a message, with nothing to say against it. */
    void settled(Settle message) {
      send(SubscribeResponse.newBuilder().setSettled(Settled.newBuilder().setSequence(message.getSequence())));
    }

    SubscribeRequest receive() throws InterruptedException {
      SubscribeRequest request = requests.poll(PATIENCE, TimeUnit.SECONDS);
      assertNotNull(request, "no message came");
      return request;
    }

    /** Waits a moment for a message that should not come. */
    SubscribeRequest receiveWithin(long millis) throws InterruptedException {
      return requests.poll(millis, TimeUnit.MILLISECONDS);
    }

    /** Waits for verdicts on so many records, passing over other messages. */
    List<Verdict> verdicts(int records) throws InterruptedException {
      List<Verdict> verdicts = new ArrayList<>();
      long left = records;
      while (left > 0) {
        for (Verdict verdict : receive().getSettle().getVerdictsList()) {
          verdicts.add(verdict);
          left -= last(verdict) - verdict.getFirstOffset() + 1;
        }
      }
      assertTrue(left == 0, () -> "too many verdicts: " + verdicts);
      return verdicts;
    }

    static long last(Verdict verdict) {
      return verdict.hasLastOffset() ? verdict.getLastOffset() : verdict.getFirstOffset();
    }

    void end() {
      responses.onCompleted();
    }

    void fail(Throwable error) {
      responses.onError(error);
    }

    /** Waits for `Close` and ends the stream with OK. */
    void goodbye() throws InterruptedException {
      while (!receive().hasClose()) {
        continue;
      }
      end();
    }
  }
}
