package dev.ackgate.programs;

import dev.ackgate.client.AckgateException;
import dev.ackgate.client.Delivery;
import dev.ackgate.client.Header;
import dev.ackgate.client.Options;
import dev.ackgate.client.RejectException;
import dev.ackgate.client.ReleaseException;
import dev.ackgate.client.RetryException;
import dev.ackgate.client.Stats;
import dev.ackgate.client.Subscriber;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A subscriber for tests: told by each record what to do with it, it prints what happens as JSON, one
 * object a line.
 */
public final class Conformance {
  private static final Set<String> OPTIONS =
      Set.of(
          "--address",
          "--subscription",
          "--subscriber-id",
          "--credit",
          "--concurrency",
          "--max-message-bytes",
          "--ack-deadline");
  private static final Set<String> FLAGS = Set.of("--until-drained", "--batches");

  /** The header that says what to do with a record. */
  private static final String INSTRUCTION = "conformance-do";

  private static final long MOST_MS = 3_600_000;

  private Conformance() {}

  public static void main(String[] arguments) {
    try {
      CommandLine line = new CommandLine(arguments, OPTIONS, FLAGS);
      if (!line.others().isEmpty()) {
        throw new CommandLine.Wrong("unexpected argument " + line.others().get(0));
      }
      System.exit(run(line));
    } catch (CommandLine.Wrong e) {
      System.err.println(e.getMessage());
      System.exit(2);
    }
  }

  private static int run(CommandLine line) throws CommandLine.Wrong {
    boolean batches = line.has("--batches");
    int concurrency = (int) line.number("--concurrency", 8, 1, 10_000);
    Lines lines = new Lines(System.out, !batches);
    Options options =
        Subscriber.builder(List.of(line.get("--address").split(",")), line.get("--subscription"))
            .credit((int) line.number("--credit", 64, 1, 1_000_000), 16 << 20)
            .maxMessageBytes(line.number("--max-message-bytes", 4 << 20, 0, Long.MAX_VALUE))
            .untilDrained(line.has("--until-drained"))
            .listener(lines);
    line.connection(options);
    if (line.has("--subscriber-id")) {
      options.subscriberId(line.get("--subscriber-id"));
    }
    if (line.has("--ack-deadline")) {
      options.ackDeadline(Duration.ofMillis(line.number("--ack-deadline", 0, 0, MOST_MS)));
    }
    Thread opening = Thread.currentThread();
    AtomicReference<Subscriber> open = new AtomicReference<>();
    CommandLine.onSignal(
        () -> {
          if (open.get() == null) {
            opening.interrupt();
          } else {
            open.get().stop();
          }
        });
    try (Subscriber subscriber = options.open()) {
      open.set(subscriber);
      if (batches) {
        subscriber.runBatches(
            concurrency,
            batch -> {
              lines.batch(batch);
              batch.ackAll();
            });
      } else {
        subscriber.run(
            concurrency,
            delivery -> {
              lines.delivery(delivery);
              handle(delivery);
            });
      }
      lines.closed(subscriber.stats());
      return 0;
    } catch (AckgateException e) {
      lines.failed(e);
      return 1;
    } catch (InterruptedException e) {
      // Only a signal interrupts, and only while nothing is open.
      lines.closed(new Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
      return 0;
    }
  }

  /** Does what the record says. */
  private static void handle(Delivery delivery) {
    byte[] instruction = delivery.header(INSTRUCTION).map(Header::value).orElse(null);
    String text = instruction == null ? "" : new String(instruction, StandardCharsets.UTF_8);
    String[] words = text.split(":", 2);
    String rest = words.length == 2 ? words[1] : "";
    switch (words[0]) {
      case "", "ack" -> {}
      case "reject" -> throw new RejectException(rest, "as the record says");
      case "fail" -> {
        String[] numbers = rest.split(":");
        if (numbers.length != 2) {
          throw unknown(text);
        }
        if (delivery.attempt() <= number(numbers[0], text)) {
          throw new RetryException(Duration.ofMillis(number(numbers[1], text)), "not this time");
        }
      }
      case "work" -> {
        try {
          Thread.sleep(number(rest, text));
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw new ReleaseException();
        }
      }
      case "raise" -> {
        if (delivery.attempt() <= 1) {
          throw new IllegalStateException("as the record says");
        }
      }
      default -> throw unknown(text);
    }
  }

  private static long number(String word, String text) {
    try {
      long number = Long.parseLong(word);
      if (number >= 0 && number <= MOST_MS) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Told below.
    }
    throw unknown(text);
  }

  private static RejectException unknown(String text) {
    return new RejectException("unknown-instruction", text);
  }
}
