package dev.ackgate.client;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;

/**
 * What was received and is not begun. A batch has one record at least, so within the credit it does
 * not fill; if the gateway exceeds that, the reader waits and HTTP/2 holds the gateway back.
 */
final class Intake {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Deque<List<Delivery>> batches = new ArrayDeque<>();
  private final int capacity;
  private boolean over;

  Intake(int capacity) {
    this.capacity = capacity;
  }

  /** Waits for room, until {@code gone}. Returns whether it was taken. */
  boolean put(List<Delivery> batch, BooleanSupplier gone) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      while (!over && batches.size() >= capacity) {
        if (gone.getAsBoolean()) {
          return false;
        }
        changed.await(100, TimeUnit.MILLISECONDS);
      }
      if (!over) {
        batches.addLast(batch);
        changed.signalAll();
      }
      return !over;
    } finally {
      lock.unlock();
    }
  }

  /** Waits for a batch up to {@code nanos}, or takes what is left of one. Null: none came, or none will. */
  List<Delivery> take(long nanos) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      long left = nanos;
      while (!over && batches.isEmpty()) {
        if (left <= 0) {
          return null;
        }
        left = changed.awaitNanos(left);
      }
      List<Delivery> batch = over ? null : batches.pollFirst();
      changed.signalAll();
      return batch;
    } finally {
      lock.unlock();
    }
  }

  /** Gives back what was taken and is not begun. Returns false if nothing is taken any more. */
  boolean putBack(List<Delivery> batch) {
    lock.lock();
    try {
      if (!over && !batch.isEmpty()) {
        batches.addFirst(batch);
        changed.signalAll();
      }
      return !over;
    } finally {
      lock.unlock();
    }
  }

  /** Nothing is taken any more. Returns what was not begun. */
  List<Delivery> end() {
    lock.lock();
    try {
      over = true;
      List<Delivery> left = new ArrayList<>();
      batches.forEach(left::addAll);
      batches.clear();
      changed.signalAll();
      return left;
    } finally {
      lock.unlock();
    }
  }

  boolean isOver() {
    lock.lock();
    try {
      return over;
    } finally {
      lock.unlock();
    }
  }
}
