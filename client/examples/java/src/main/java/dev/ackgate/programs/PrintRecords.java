package dev.ackgate.programs;

import dev.ackgate.client.AckgateException;
import dev.ackgate.client.Event;
import dev.ackgate.client.Options;
import dev.ackgate.client.RejectException;
import dev.ackgate.client.Subscriber;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;

/**
 * Prints the records of a subscription and acks them: {@code subscriber [OPTIONS] [ADDRESS[,ADDRESS...]
 * [SUBSCRIPTION]]}. By default it subscribes to {@code orders} at 127.0.0.1:7654, where {@code ackgate
 * demo} serves them. Ctrl-C ends it: records that are begun are finished, the rest is given back.
 */
public final class PrintRecords {
  private PrintRecords() {}

  private static final String USAGE =
      """
      usage: subscriber [OPTIONS] [ADDRESS[,ADDRESS...] [SUBSCRIPTION]]
      by default: subscriber 127.0.0.1:7654 orders
      TLS: an address https://HOST:PORT, or an option --tls-...
        --tls-ca FILE           PEM of the authorities to trust
        --tls-cert FILE         PEM to show to the gateway
        --tls-key FILE          PEM of its key, PKCS #8
        --tls-server-name NAME  what the gateway's certificate must have
        --token-file FILE       holds the token""";

  public static void main(String[] arguments) {
    if (List.of(arguments).contains("--help")) {
      System.out.println(USAGE);
      return;
    }
    try {
      CommandLine line = new CommandLine(arguments, Set.of(), Set.of());
      List<String> given = line.others();
      if (given.size() > 2) {
        throw new CommandLine.Wrong(USAGE);
      }
      String address = given.isEmpty() ? "127.0.0.1:7654" : given.get(0);
      Options options = Subscriber.builder(List.of(address.split(",")), given.size() == 2 ? given.get(1) : "orders");
      line.connection(options);
      print(options.listener(PrintRecords::tell));
    } catch (CommandLine.Wrong e) {
      System.err.println(e.getMessage());
      System.exit(2);
    } catch (AckgateException e) {
      System.err.println(e);
      System.exit(1);
    } catch (InterruptedException e) {
      System.err.println("ended before there was a stream");
    }
  }

  private static void print(Options options) throws InterruptedException {
    Thread opening = Thread.currentThread();
    Subscriber[] open = new Subscriber[1];
    CommandLine.onSignal(
        () -> {
          if (open[0] == null) {
            opening.interrupt();
          } else {
            open[0].stop();
          }
        });
    try (Subscriber subscriber = options.open()) {
      open[0] = subscriber;
      subscriber.run(
          8,
          delivery -> {
            String value;
            try {
              value = strict(delivery.value());
            } catch (CharacterCodingException e) {
              throw new RejectException("not-utf-8", e.toString());
            }
            System.out.println(
                delivery.topic() + "/" + delivery.partition() + "@" + delivery.offset() + " " + text(delivery.key()) + " " + value);
          });
      var stats = subscriber.stats();
      System.err.println(stats.records() + " records, " + stats.acked() + " acked, " + stats.rejected() + " rejected");
    }
  }

  private static void tell(Event event) {
    if (event instanceof Event.Opened opened) {
      System.err.println("subscribed as " + opened.subscriberId() + ", session " + opened.session());
    } else if (event instanceof Event.Disconnected lost) {
      System.err.println(lost.error() + "; again in " + lost.retryIn().toMillis() + " ms");
    }
  }

  private static String strict(byte[] bytes) throws CharacterCodingException {
    return bytes == null ? "<null>" : StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "<null>" : new String(bytes, StandardCharsets.UTF_8);
  }
}
