package dev.ackgate.client;

import java.nio.file.Path;
import java.util.List;

/**
 * The gateways of a subscriber, tried in turn: it has a stream to one of them at a time. One thread
 * turns it.
 */
final class Gateways {
  private static final int MOST_ADDRESSES = 64;

  private final List<Connection> every;
  private volatile int at;

  /** Those in a row where trying again would not help. */
  private int refused;

  /** Checks all of it; nothing is connected yet. */
  Gateways(List<String> addresses, Tls tls, Path tokenFile) {
    if (addresses.isEmpty() || addresses.size() > MOST_ADDRESSES) {
      throw AckgateException.invalid(
          "address: 1 to " + MOST_ADDRESSES + " addresses, not " + addresses.size());
    }
    every = addresses.stream().map(address -> Connection.of(address, tls, tokenFile)).toList();
  }

  int size() {
    return every.size();
  }

  List<Connection> all() {
    return every;
  }

  /** The one of the moment. */
  Connection current() {
    return every.get(at);
  }

  /** A stream is open here. */
  synchronized void opened() {
    refused = 0;
  }

  /** It does not serve now: the next one is tried. */
  synchronized void leave() {
    refused = 0;
    next();
  }

  /** Trying again here would not help. Returns whether it may help elsewhere. */
  synchronized boolean refused() {
    refused++;
    next();
    return refused < every.size();
  }

  private void next() {
    at = (at + 1) % every.size();
  }
}
