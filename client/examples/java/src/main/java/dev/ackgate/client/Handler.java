package dev.ackgate.client;

/** Works on one record; how it ends is the verdict. See the package's table. */
@FunctionalInterface
public interface Handler {
  /** Works on it. Is interrupted only if it goes on long after the subscriber was to stop. */
  void handle(Delivery delivery) throws Exception;
}
