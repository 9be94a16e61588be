package dev.ackgate.client;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** Threads that take and handle records until there are no more, and their end. */
final class Workers {
  /** How often to look whether the subscriber ends. */
  private static final long LOOK_MILLIS = 100;

  /** Takes something and handles it. */
  @FunctionalInterface
  interface Work {
    /** Returns false if there is nothing more. */
    boolean next() throws InterruptedException;
  }

  private final Subscriber subscriber;
  private final Options options;
  private final int concurrency;
  private final CountDownLatch busy;
  private final Set<Thread> threads = ConcurrentHashMap.newKeySet();

  Workers(Subscriber subscriber, Options options, int concurrency) {
    if (concurrency < 1) {
      throw AckgateException.invalid("concurrency: at least 1");
    }
    this.subscriber = subscriber;
    this.options = options;
    this.concurrency = concurrency;
    this.busy = new CountDownLatch(concurrency);
  }

  /** Works until the subscriber ends, and closes it. executor: null for threads of its own. */
  void run(Executor executor, Work work) throws InterruptedException {
    subscriber.setExtending(true);
    try {
      for (int i = 0; i < concurrency; i++) {
        if (executor == null) {
          Thread thread = new Thread(() -> loop(work), "ackgate-handler-" + i);
          thread.setDaemon(true);
          thread.start();
        } else {
          executor.execute(() -> loop(work));
        }
      }
      subscriber.awaitLeaving();
    } finally {
      subscriber.stop();
      awaitHandlers();
      subscriber.setExtending(false);
      subscriber.close();
    }
  }

  private void loop(Work work) {
    threads.add(Thread.currentThread());
    try {
      boolean more = true;
      while (more) {
        more = work.next();
      }
    } catch (InterruptedException e) {
      // It went on for longer than it may: what it has is given back with the goodbye.
      Thread.currentThread().interrupt();
    } finally {
      threads.remove(Thread.currentThread());
      busy.countDown();
    }
  }

  /**
   * Waits for the handlers, up to the shutdown timeout, then interrupts them. If the subscriber has
   * given up, what they do does not count any more.
   */
  private void awaitHandlers() throws InterruptedException {
    long until = System.nanoTime() + options.shutdownTimeout.toNanos();
    while (System.nanoTime() - until < 0 && !subscriber.isDone()) {
      if (busy.await(LOOK_MILLIS, TimeUnit.MILLISECONDS)) {
        return;
      }
    }
    threads.forEach(Thread::interrupt);
    // A moment for those that listen.
    busy.await(Math.max(LOOK_MILLIS, options.shutdownTimeout.toMillis() / 10), TimeUnit.MILLISECONDS);
  }
}
