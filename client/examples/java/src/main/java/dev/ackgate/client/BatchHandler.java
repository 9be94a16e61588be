package dev.ackgate.client;

/** Works on a batch. What it has not answered itself gets the verdict that its end means. */
@FunctionalInterface
public interface BatchHandler {
  /** Works on it. Is interrupted only if it goes on long after the subscriber was to stop. */
  void handle(Batch batch) throws Exception;
}
