package dev.ackgate.programs;

import dev.ackgate.client.Options;
import dev.ackgate.client.Tls;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import sun.misc.Signal;

/** What the programs' command lines have in common. */
final class CommandLine {
  private static final Set<String> CONNECTION =
      Set.of("--tls-ca", "--tls-cert", "--tls-key", "--tls-server-name", "--token-file");

  /** The command line is not one that the program understands. */
  static final class Wrong extends Exception {
    private static final long serialVersionUID = 1;

    Wrong(String message) {
      super(message);
    }
  }

  private final Map<String, String> values = new HashMap<>();
  private final List<String> others = new ArrayList<>();

  /** Reads options with a value, as {@code --name value} or {@code --name=value}, and flags. */
  CommandLine(String[] line, Set<String> options, Set<String> flags) throws Wrong {
    for (int i = 0; i < line.length; i++) {
      String[] parts = line[i].split("=", 2);
      if (!line[i].startsWith("--")) {
        others.add(line[i]);
      } else if (flags.contains(line[i])) {
        values.put(line[i], "");
      } else if (!options.contains(parts[0]) && !CONNECTION.contains(parts[0])) {
        throw new Wrong("unknown option " + parts[0]);
      } else if (parts.length == 2) {
        values.put(parts[0], parts[1]);
      } else if (i + 1 < line.length) {
        values.put(parts[0], line[++i]);
      } else {
        throw new Wrong(parts[0] + " needs a value");
      }
    }
  }

  List<String> others() {
    return others;
  }

  boolean has(String name) {
    return values.containsKey(name);
  }

  String get(String name) throws Wrong {
    if (!has(name)) {
      throw new Wrong(name + " is required");
    }
    return values.get(name);
  }

  long number(String name, long fallback, long least, long most) throws Wrong {
    if (!has(name)) {
      return fallback;
    }
    try {
      long value = Long.parseLong(values.get(name));
      if (value >= least && value <= most) {
        return value;
      }
    } catch (NumberFormatException e) {
      // Told below: what is no number is not within the range either.
    }
    throw new Wrong(name + ": a number from " + least + " to " + most);
  }

  /** Sets how to connect. */
  void connection(Options options) {
    options.tls(new Tls(path("--tls-ca"), path("--tls-cert"), path("--tls-key"), values.get("--tls-server-name")));
    options.tokenFile(path("--token-file"));
  }

  private Path path(String name) {
    return has(name) ? Path.of(values.get(name)) : null;
  }

  /** Runs {@code stop} at the first SIGINT or SIGTERM; the second one ends the program at once. */
  static void onSignal(Runnable stop) {
    boolean[] first = {true};
    for (String name : List.of("INT", "TERM")) {
      Signal.handle(
          new Signal(name),
          signal -> {
            synchronized (first) {
              if (!first[0]) {
                Runtime.getRuntime().halt(130);
              }
              first[0] = false;
            }
            stop.run();
          });
    }
  }
}
