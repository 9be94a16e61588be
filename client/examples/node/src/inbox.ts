/** What has come and was not taken by the program yet. */

import type { Batch, Delivery } from "./delivery.js";
import type { Counters } from "./events.js";

/**
 * Batches in the order they came, and what is left of the one that is taken by record. Within
 * the credit it never fills; beyond that its owner lets the stream wait.
 */
export class Inbox {
  #batches: Batch[] = [];
  #deliveries: Iterator<Delivery> | undefined;
  #size = 0;

  constructor(
    readonly counters: Counters,
    /** The credit in records. */
    public limit: number,
  ) {}

  /** Whether there is as much as the credit allows. */
  get isFull(): boolean {
    return this.#size >= this.limit;
  }

  /** Takes a batch in. */
  put(batch: Batch): void {
    this.#batches.push(batch);
    this.#size += batch.size;
  }

  /** The next batch of which anything is still the program's. */
  batch(): Batch | undefined {
    for (let batch = this.#batches.shift(); batch; batch = this.#batches.shift()) {
      const before = batch.size;
      this.#size -= before;
      const ours = batch.refresh();
      this.counters.stats.discarded += before - batch.size;
      if (ours) return batch;
    }
    return undefined;
  }

  /** The next record that is still the program's. */
  delivery(): Delivery | undefined {
    for (;;) {
      const next = this.#deliveries?.next();
      if (next && !next.done) {
        if (next.value.isOurs) return next.value;
        this.counters.stats.discarded += 1;
        continue;
      }
      const batch = this.batch();
      this.#deliveries = batch?.[Symbol.iterator]();
      if (!batch) return undefined;
    }
  }

  /** Releases all that is in. */
  giveBack(): void {
    for (let next = this.#deliveries?.next(); next && !next.done; next = this.#deliveries?.next()) {
      next.value.release();
    }
    this.#deliveries = undefined;
    for (const batch of this.#batches) batch.release();
    this.#batches = [];
    this.#size = 0;
  }
}
