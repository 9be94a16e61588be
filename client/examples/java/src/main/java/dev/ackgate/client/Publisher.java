package dev.ackgate.client;

import com.google.protobuf.ByteString;
import dev.ackgate.v1.GatewayServiceGrpc;
import dev.ackgate.v1.OutgoingRecord;
import dev.ackgate.v1.PublishBatchRequest;
import dev.ackgate.v1.PublishError;
import dev.ackgate.v1.PublishOptions;
import dev.ackgate.v1.PublishResult;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Writes some records through the gateway, one call for all. Keeps no connection between calls. */
public final class Publisher {
  /** Most records in one call; it also takes at most 16 MiB. */
  private static final int MOST_RECORDS = 10_000;

  private static final int MAX_MESSAGE = 16 << 20;
  private static final Duration SLACK = Duration.ofSeconds(5);
  private static final Duration REACH = Duration.ofSeconds(10);

  private final List<String> addresses;
  private Tls tls = Tls.DEFAULT;
  private Path tokenFile;
  private String cluster = "";
  private Duration timeout = Duration.ofSeconds(30);

  private Publisher(List<String> addresses) {
    this.addresses = addresses;
  }

  /** Writes through the first of these gateways that can be reached. */
  public static Publisher to(String... addresses) {
    return new Publisher(List.of(addresses));
  }

  /** As {@link Options#tls}. */
  public Publisher tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /** As {@link Options#tokenFile}. */
  public Publisher tokenFile(Path file) {
    this.tokenFile = file;
    return this;
  }

  /** Sets the name of the cluster in the gateway's configuration; without it the one that takes records. */
  public Publisher cluster(String cluster) {
    this.cluster = cluster;
    return this;
  }

  /** Sets the time for each record: 100 ms to 5 min, default 30 s. */
  public Publisher timeout(Duration timeout) {
    this.timeout = timeout;
    return this;
  }

  /**
   * Writes 1 to 10,000 records and returns what became of each, in their order.
   *
   * @throws AckgateException the call itself did not succeed: nobody knows what was written
   */
  public List<Written> publishBatch(List<Outgoing> records) throws InterruptedException {
    Options.check(!records.isEmpty() && records.size() <= MOST_RECORDS, "records: 1 to " + MOST_RECORDS);
    Options.check(Options.within(timeout, Duration.ofMillis(100), Duration.ofMinutes(5)), "timeout: 100 ms to 5 min");
    PublishBatchRequest.Builder request = PublishBatchRequest.newBuilder();
    request.setOptions(PublishOptions.newBuilder().setCluster(cluster).setTimeout(Verdict.wire(timeout)));
    records.forEach(record -> request.addRecords(wire(record)));
    List<Connection> all = new Gateways(addresses, tls, tokenFile).all();
    for (Connection to : all) {
      ManagedChannel channel = to.connect(MAX_MESSAGE);
      try {
        if (to != all.get(all.size() - 1) && !isReached(channel)) {
          continue;
        }
        return GatewayServiceGrpc.newBlockingStub(channel)
            .withDeadlineAfter(timeout.plus(SLACK).toNanos(), TimeUnit.NANOSECONDS)
            .publishBatch(request.build())
            .getResultsList()
            .stream()
            .map(Publisher::written)
            .toList();
      } catch (StatusRuntimeException e) {
        throw Handshake.explained(AckgateException.of(e), to).at(to.address());
      } finally {
        channel.shutdownNow();
      }
    }
    throw AckgateException.invalid("address: none");
  }

  /** Waits until there is a connection, or the first try has failed. */
  private static boolean isReached(ManagedChannel channel) throws InterruptedException {
    long until = System.nanoTime() + REACH.toNanos();
    ConnectivityState state = channel.getState(true);
    while (state != ConnectivityState.READY && state != ConnectivityState.TRANSIENT_FAILURE) {
      CountDownLatch changed = new CountDownLatch(1);
      channel.notifyWhenStateChanged(state, changed::countDown);
      if (!changed.await(until - System.nanoTime(), TimeUnit.NANOSECONDS)) {
        return false;
      }
      state = channel.getState(true);
    }
    return state == ConnectivityState.READY;
  }

  private static OutgoingRecord wire(Outgoing record) {
    OutgoingRecord.Builder wire = OutgoingRecord.newBuilder().setTopic(record.topic());
    if (record.key() != null) {
      wire.setKey(ByteString.copyFrom(record.key()));
    }
    if (record.value() != null) {
      wire.setValue(ByteString.copyFrom(record.value()));
    }
    if (record.partition() != null) {
      wire.setPartition(record.partition());
    }
    for (Header header : record.headers()) {
      var one = dev.ackgate.v1.Header.newBuilder().setKey(header.name());
      if (header.value() != null) {
        one.setValue(ByteString.copyFrom(header.value()));
      }
      wire.addHeaders(one);
    }
    return wire.build();
  }

  private static Written written(PublishResult result) {
    PublishError error = result.getError();
    String name = error == PublishError.UNRECOGNIZED ? "UNKNOWN_" + result.getErrorValue() : error.name();
    return new Written(
        result.getTopic(),
        result.hasPartition() ? OptionalInt.of(result.getPartition()) : OptionalInt.empty(),
        result.hasOffset() ? OptionalLong.of(result.getOffset()) : OptionalLong.empty(),
        error == PublishError.PUBLISH_ERROR_UNSPECIFIED ? "" : name.replaceFirst("^PUBLISH_ERROR_", ""),
        result.getDetail());
  }
}
