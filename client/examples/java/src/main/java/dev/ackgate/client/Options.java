package dev.ackgate.client;

import dev.ackgate.v1.BatchOptions;
import dev.ackgate.v1.Credit;
import dev.ackgate.v1.Open;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** Describes a {@link Subscriber}; made by {@link Subscriber#builder}. */
public final class Options {
  private static final long GIB = 1L << 30;

  final List<String> addresses;
  final String subscription;
  private AdHoc adHoc;
  private SubscriptionOptions expect;
  Confirm confirm = Confirm.PROBLEMS;
  Tls tls = Tls.DEFAULT;
  Path tokenFile;
  String subscriberId = "";
  int creditRecords = 1_000;
  long creditBytes = 16 << 20;
  long maxMessageBytes = 4 << 20;
  Duration ackDeadline;
  String filter = "";
  boolean untilDrained;
  boolean resumable = true;
  boolean takeover;
  int batchRecords;
  Duration batchLinger;
  Duration openTimeout = Duration.ofSeconds(10);
  Duration shutdownTimeout = Duration.ofSeconds(10);
  Duration closeTimeout = Duration.ofSeconds(5);
  Duration firstBackoff = Duration.ofMillis(250);
  Duration maxBackoff = Duration.ofSeconds(30);
  int maxRetries = Integer.MAX_VALUE;
  Consumer<Event> listener = event -> {};

  /** What a subscription without a name is. */
  private record AdHoc(String cluster, List<String> topics, String group) {}

  Options(List<String> addresses, String subscription) {
    this.addresses = List.copyOf(addresses);
    this.subscription = subscription;
  }

  Options(List<String> addresses, String cluster, List<String> topics, String group) {
    this(addresses, "");
    this.adHoc = new AdHoc(cluster, List.copyOf(topics), group);
  }

  /** Sets what the subscription is to be like. */
  public Options expect(SubscriptionOptions options) {
    this.expect = options;
    return this;
  }

  /** Sets which answers to verdicts are wanted; by default {@link Confirm#PROBLEMS}. */
  public Options confirm(Confirm confirm) {
    this.confirm = confirm;
    return this;
  }

  /** Sets how the connection is secured; with anything given, also a bare {@code HOST:PORT} is. */
  public Options tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /** Sets the file that holds the token; it is read again for each connection. Use it with TLS. */
  public Options tokenFile(Path file) {
    this.tokenFile = file;
    return this;
  }

  /** Sets the subscriber's own name, at most 256 bytes without control characters. Without it the gateway makes one. */
  public Options subscriberId(String id) {
    this.subscriberId = id;
    return this;
  }

  /**
   * Sets the most that may be out to this subscriber at any time, begun or not: 1 to 1,000,000
   * records (default 1,000) and 1 byte to 1 GiB (default 16 MiB). They bound its memory.
   */
  public Options credit(int records, long bytes) {
    this.creditRecords = records;
    this.creditBytes = bytes;
    return this;
  }

  /** Sets the largest message accepted: 4,096 bytes to 1 GiB, default 4 MiB. */
  public Options maxMessageBytes(long bytes) {
    this.maxMessageBytes = bytes;
    return this;
  }

  /** Sets the time for a verdict on each delivery, 100 ms to 1 h; {@code run} extends it by itself. */
  public Options ackDeadline(Duration deadline) {
    this.ackDeadline = deadline;
    return this;
  }

  /** Sets which records are expected, as the protocol has it at {@code Open.filter}. */
  public Options filter(String expression) {
    this.filter = expression;
    return this;
  }

  /** Ends the stream once all that there is has been read and answered. */
  public Options untilDrained(boolean untilDrained) {
    this.untilDrained = untilDrained;
    return this;
  }

  /** Sets whether what is in hand outlives a lost connection; it does by default. */
  public Options resumable(boolean resumable) {
    this.resumable = resumable;
    return this;
  }

  /** Takes the place of another stream of the same subscriber id at the first opening. */
  public Options takeover(boolean takeover) {
    this.takeover = takeover;
    return this;
  }

  /** Asks for batches of at most so many records (1 to 10,000), the first of which waits for others up to {@code linger} (at most a minute). */
  public Options batches(int records, Duration linger) {
    this.batchRecords = records;
    this.batchLinger = linger;
    return this;
  }

  /** Sets how long connecting and opening the stream may take; default 10 s. */
  public Options openTimeout(Duration timeout) {
    this.openTimeout = timeout;
    return this;
  }

  /** Sets how long handlers may take at the end of {@code run}; default 10 s. */
  public Options shutdownTimeout(Duration timeout) {
    this.shutdownTimeout = timeout;
    return this;
  }

  /** Sets how long the gateway has to answer the goodbye; default 5 s. */
  public Options closeTimeout(Duration timeout) {
    this.closeTimeout = timeout;
    return this;
  }

  /** Limits the random delays between tries to connect: the first is up to 250 ms by default, the limit doubles, up to 30 s. */
  public Options backoff(Duration first, Duration most) {
    this.firstBackoff = first;
    this.maxBackoff = most;
    return this;
  }

  /** Gives up after so many tries in a row; without it, never. */
  public Options maxRetries(int retries) {
    this.maxRetries = retries;
    return this;
  }

  /** Is told what happens, by threads of the subscriber's own and of handlers: it must be quick. */
  public Options listener(Consumer<Event> listener) {
    this.listener = listener;
    return this;
  }

  /**
   * Subscribes: waits until the stream is open, trying again as later reconnects do.
   *
   * @throws AckgateException for an option out of its range, and what trying again does not help
   * @throws InterruptedException the thread was interrupted; nothing is open then
   */
  public Subscriber open() throws InterruptedException {
    if (adHoc == null) {
      check(!subscription.isEmpty(), "subscription: must not be empty");
    } else {
      check(!adHoc.cluster.isEmpty(), "adHoc: the cluster is missing");
      check(!adHoc.topics.isEmpty() && adHoc.topics.size() <= 100, "adHoc: 1 to 100 topics");
      check(adHoc.topics.stream().noneMatch(String::isEmpty), "adHoc: a topic has a name");
      check(!adHoc.group.isEmpty() && adHoc.group.length() <= 255, "adHoc: a group has 1 to 255 characters");
    }
    check(
        subscriberId.getBytes(StandardCharsets.UTF_8).length <= 256
            && subscriberId.codePoints().noneMatch(Character::isISOControl),
        "subscriberId: at most 256 bytes without control characters");
    check(
        creditRecords >= 1 && creditRecords <= 1_000_000 && creditBytes >= 1 && creditBytes <= GIB,
        "credit: 1 to 1,000,000 records and 1 byte to 1 GiB");
    check(maxMessageBytes >= 4_096 && maxMessageBytes <= GIB, "maxMessageBytes: 4,096 bytes to 1 GiB");
    check(
        ackDeadline == null || within(ackDeadline, Duration.ofMillis(100), Duration.ofHours(1)),
        "ackDeadline: 100 ms to 1 h");
    check(filter.getBytes(StandardCharsets.UTF_8).length <= 4_096, "filter: at most 4,096 bytes");
    check(
        batchRecords >= 0
            && batchRecords <= 10_000
            && (batchLinger == null || within(batchLinger, Duration.ZERO, Duration.ofMinutes(1))),
        "batches: 1 to 10,000 records, a linger of at most 1 min");
    check(
        !firstBackoff.isNegative() && within(firstBackoff, Duration.ZERO, maxBackoff),
        "backoff: the first delay must not be above the longest");
    check(maxRetries >= 0, "maxRetries: not below 0");
    return Subscriber.start(this, new Gateways(addresses, tls, tokenFile));
  }

  static boolean within(Duration it, Duration least, Duration most) {
    return it.compareTo(least) >= 0 && it.compareTo(most) <= 0;
  }

  static void check(boolean holds, String problem) {
    if (!holds) {
      throw AckgateException.invalid(problem);
    }
  }

  /** The first message of a session that goes on with nothing. */
  Open.Builder message() {
    Open.Builder open =
        Open.newBuilder()
            .setSubscription(subscription)
            .setSubscriberId(subscriberId)
            .setCredit(Credit.newBuilder().setRecords(creditRecords).setBytes(creditBytes))
            .setMaxMessageBytes(maxMessageBytes)
            .setResumable(resumable)
            .setUntilDrained(untilDrained)
            .setFilter(filter)
            .setConfirm(confirm.wire);
    if (adHoc != null) {
      open.getAdHocBuilder().setCluster(adHoc.cluster).addAllTopics(adHoc.topics).setGroup(adHoc.group);
    }
    if (adHoc != null && expect != null) {
      open.getAdHocBuilder().setOptions(expect.wire());
    } else if (expect != null) {
      open.setExpect(expect.wire());
    }
    if (ackDeadline != null) {
      open.setAckDeadline(Verdict.wire(ackDeadline));
    }
    if (batchRecords > 0 || batchLinger != null) {
      BatchOptions.Builder batch = BatchOptions.newBuilder().setMaxRecords(batchRecords);
      if (batchLinger != null) {
        batch.setLinger(Verdict.wire(batchLinger));
      }
      open.setBatch(batch);
    }
    return open;
  }
}
