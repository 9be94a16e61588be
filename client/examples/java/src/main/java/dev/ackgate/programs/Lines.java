package dev.ackgate.programs;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import dev.ackgate.client.AckgateException;
import dev.ackgate.client.Batch;
import dev.ackgate.client.Delivery;
import dev.ackgate.client.Event;
import dev.ackgate.client.Stats;
import dev.ackgate.client.TraceContext;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;

/** Prints events as JSON, one object a line. */
final class Lines implements Consumer<Event> {
  /** Largest value that is printed, in bytes; of others it is the hash. */
  private static final int MAX_PRINTED = 1_024;

  private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  private final PrintStream out;
  private final boolean verdicts;

  Lines(PrintStream out, boolean verdicts) {
    this.out = out;
    this.verdicts = verdicts;
  }

  @Override
  public void accept(Event event) {
    if (event instanceof Event.Opened it) {
      print("opened", "session", it.session(), "subscriber_id", it.subscriberId(), "resumed", it.kept());
    } else if (event instanceof Event.Disconnected it) {
      var error = it.error();
      print(
          "disconnected",
          "code",
          error.code().name(),
          "reason",
          error.reason(),
          "message",
          error.getMessage(),
          "retry_in_ms",
          it.retryIn().toMillis());
    } else if (event instanceof Event.Drained it) {
      print("drain", "reason", it.reason());
    } else if (event instanceof Event.Settled it && verdicts) {
      for (long offset = it.firstOffset(); offset <= it.lastOffset(); offset++) {
        print(
            "verdict",
            "topic",
            it.topic(),
            "partition",
            it.partition(),
            "offset",
            offset,
            "attempt",
            it.attempt(),
            "verdict",
            lower(it.outcome()));
      }
    } else if (event instanceof Event.Problem it) {
      print(
          "problem",
          "topic",
          it.topic(),
          "partition",
          it.partition(),
          "first_offset",
          it.firstOffset(),
          "last_offset",
          it.lastOffset(),
          "kind",
          lower(it.kind()));
    }
  }

  void delivery(Delivery delivery) {
    List<List<String>> headers = new ArrayList<>();
    delivery.headers().forEach(header -> headers.add(Arrays.asList(header.name(), base64(header.value()))));
    byte[] value = delivery.value();
    boolean isLarge = value != null && value.length > MAX_PRINTED;
    print(
        "delivery",
        "topic",
        delivery.topic(),
        "partition",
        delivery.partition(),
        "offset",
        delivery.offset(),
        "attempt",
        delivery.attempt(),
        "delivery",
        delivery.deliveryNumber(),
        "key",
        base64(delivery.key()),
        isLarge ? "value_sha256" : "value",
        isLarge ? sha256(value) : base64(value),
        "value_bytes",
        value == null ? 0 : value.length,
        "headers",
        headers,
        "timestamp_ms",
        delivery.timestampMillis(),
        "traceparent",
        delivery.traceContext().map(TraceContext::traceparent).orElse(null));
  }

  void batch(Batch batch) {
    List<Delivery> deliveries = batch.deliveries();
    print(
        "batch",
        "topic",
        batch.topic(),
        "partition",
        batch.partition(),
        "records",
        deliveries.size(),
        "first_offset",
        deliveries.get(0).offset(),
        "last_offset",
        deliveries.get(deliveries.size() - 1).offset());
  }

  void closed(Stats stats) {
    print(
        "closed",
        "acked",
        stats.acked(),
        "rejected",
        stats.rejected(),
        "failed",
        stats.failed(),
        "released",
        stats.released());
  }

  void failed(AckgateException error) {
    print("error", "code", error.code().name(), "reason", error.reason(), "message", error.getMessage());
  }

  private void print(String event, Object... namesAndValues) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    for (int i = 0; i < namesAndValues.length; i += 2) {
      line.put((String) namesAndValues[i], namesAndValues[i + 1]);
    }
    byte[] text = (gson.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8);
    synchronized (out) {
      out.write(text, 0, text.length);
      out.flush();
    }
  }

  private static String lower(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  private static String base64(byte[] bytes) {
    return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
  }

  private static String sha256(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
