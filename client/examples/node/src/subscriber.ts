/**
 * `Subscriber`: a subscription as an async iterable, or with a handler.
 *
 * Timers: one for what is due (silence, signs of life, extensions, the goodbye), one between
 * streams, and the connection's while verdicts are gathered. None is left after `close`.
 */

import { setTimeout as sleep } from "node:timers/promises";

import type { Addresses } from "./addresses.js";
import { Connection } from "./connection.js";
import { Core, type How, type OpenStream } from "./core.js";
import type { Batch, Delivery } from "./delivery.js";
import { type GatewayError, NotClosed } from "./errors.js";
import type { Observer, Problem, Stats } from "./events.js";
import type { SubscribeResponse } from "./gen/ackgate/v1/gateway.js";
import { Inbox } from "./inbox.js";
import { type Options, complete } from "./options.js";
import { now } from "./time.js";

/** How long handlers may take to finish once the end is wished for, in ms. */
export const GRACE = 10_000;

const SLACK = 5_000;

/** Called for each record. `signal` aborts when there is no more time for it. */
export type Handler = (delivery: Delivery, signal: AbortSignal) => unknown;

/** How to run a handler. */
export interface RunOptions {
  /** Handlers at a time, 1 or more. */
  readonly concurrency?: number;
  /** Milliseconds for handlers to finish once it is stopped. */
  readonly grace?: number;
  /** Stops it. */
  readonly signal?: AbortSignal;
}

/**
 * A subscription: iterate over its deliveries, or over `batches()`, or `run` a handler.
 *
 * Connects by itself, and anew after every error that trying again can help. An error that it
 * cannot help is thrown where deliveries are awaited. To leave the loop is to close it.
 */
export class Subscriber implements AsyncIterable<Delivery> {
  readonly #options: Options;
  readonly #core: Core;
  readonly #inbox: Inbox;
  readonly #stopping = new AbortController();
  #stopUntil = Infinity;
  #extends = false;
  #error: unknown;
  #connection: Connection | undefined;
  #main: Promise<void> | undefined;
  #done = false;
  #due: NodeJS.Timeout | undefined;
  /** A look at what is due is on its way. */
  #confirming = false;
  /** Resolved, and made anew, when something changed for those who wait. */
  #change = deferred();

  /**
   * Of several addresses it has a stream to one at a time: the next one is tried when one does
   * not serve. What is in hand over a lost connection is asked for where it came from.
   */
  constructor(
    address: Addresses,
    subscription: string,
    options: Partial<Options> = {},
    onEvent?: Observer,
  ) {
    this.#options = complete(options);
    this.#core = new Core(address, subscription, this.#options, onEvent, () => this.#wake());
    this.#inbox = new Inbox(this.#core.counters, this.#options.credit);
  }

  /** Begins to connect. Does nothing the second time. */
  start(): void {
    if (!this.#done) this.#main ??= this.#run();
  }

  /** The deliveries, until the subscriber ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Delivery, void, undefined> {
    yield* this.#all(() => this.#inbox.delivery());
  }

  /** Whole batches, until the subscriber ends. */
  async *batches(): AsyncGenerator<Batch, void, undefined> {
    yield* this.#all(() => this.#inbox.batch());
  }

  /**
   * Calls `handler` for each record, `concurrency` at a time, until it is stopped.
   *
   * A handler that returns has acked its record; one that throws `Reject`, `Fail` or `Release`
   * has said so; after anything else that it throws the record is failed with code `handler`.
   * Deadlines of what is in hand are extended meanwhile. Then closes. Throws what ended the
   * subscription, if it was not the program.
   */
  async run(handler: Handler, options: RunOptions = {}): Promise<Stats> {
    const { concurrency = 8, grace = GRACE, signal } = options;
    if (!(concurrency >= 1)) throw new RangeError("concurrency is at least 1");
    const stop = (): void => this.stop(grace);
    const over = new AbortController();
    this.#extends = true;
    this.start();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    const workers = Array.from({ length: concurrency }, () => this.#work(handler, over.signal));
    try {
      await Promise.race([Promise.all(workers), this.#main]);
      return await this.close(grace);
    } finally {
      over.abort();
      this.stop(0);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Replaces the credit; zero in either number pauses. What is out stays out. */
  setCredit(records: number, bytes: number): void {
    this.#inbox.limit = Math.max(this.#inbox.limit, records);
    this.#core.ledger.credit(records, bytes);
    this.#notify();
  }

  /** Begins to close and returns at once. A later call can only shorten `grace` (ms). */
  stop(grace: number = GRACE): void {
    if (this.#done) return;
    this.#stopUntil = Math.min(this.#stopUntil, now() + grace);
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort();
      // First the credit, so that nothing comes in place of what is given back.
      this.#core.ledger.credit(0, 0);
      this.#inbox.giveBack();
      this.#core.ledger.drain();
      this.#notify();
    }
    this.#tick();
  }

  /**
   * Takes no more records, gives back what was not begun, and says goodbye. What is in hand may
   * be answered for `grace` ms more, and is given back then. Calling it again does no harm.
   *
   * Throws `GatewayError` if the stream was lost before its end: the last verdicts may not
   * count, and the gateway then hands those records out again.
   */
  async close(grace = 0): Promise<Stats> {
    if (!this.#main) this.#done = true;
    this.stop(grace);
    const limit = grace + this.#options.openTimeout + this.#options.closeTimeout + SLACK;
    const late = new AbortController();
    const timeout = sleep(limit, true, { signal: late.signal }).catch(() => false);
    const isLate = await Promise.race([this.#main?.then(() => false), timeout]);
    late.abort();
    if (isLate) throw new NotClosed(limit);
    this.#throw();
    return this.stats();
  }

  /** Closes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The counts so far. */
  stats(): Stats {
    return { ...this.#core.counters.stats };
  }

  /** The latest verdicts that changed nothing, oldest first; at most 1,000. */
  problems(): readonly Problem[] {
    return [...this.#core.counters.problems];
  }

  /** The subscriber's name, given or made by the gateway. */
  get subscriberId(): string {
    return this.#core.subscriberId;
  }

  /** Where the stream is, or is tried next. */
  get address(): string {
    return this.#core.gateways.address;
  }

  /** Name of the latest stream, as the gateway's logs have it. */
  get session(): string {
    return this.#core.session;
  }

  // What the program takes.

  async *#all<T>(take: () => T | undefined): AsyncGenerator<T, void, undefined> {
    this.start();
    try {
      for (let next = await this.#take(take); next; next = await this.#take(take)) yield next;
    } finally {
      // Also where the loop is left. Throws what ended it.
      await this.close();
    }
  }

  /** Waits for what `take` returns; undefined at the end. */
  async #take<T>(take: () => T | undefined): Promise<T | undefined> {
    while (!this.#isOver()) {
      // What a broken stream brought counts only if the next one keeps it.
      if (this.#core.ledger.phase !== "broken") {
        const taken = take();
        if (!this.#inbox.isFull) this.#connection?.resume();
        if (taken) return taken;
      }
      await this.#change.promise;
    }
    return undefined;
  }

  async #work(handler: Handler, signal: AbortSignal): Promise<void> {
    const next = (): Delivery | undefined => this.#inbox.delivery();
    for (let taken = await this.#take(next); taken; taken = await this.#take(next)) {
      try {
        await handler(taken, signal);
        taken.conclude(undefined);
      } catch (error) {
        // Whatever it is, it is a verdict.
        taken.conclude({ error });
      }
    }
  }

  #isOver(): boolean {
    return this.#done || this.#stopping.signal.aborted;
  }

  #throw(): void {
    const error = this.#error;
    this.#error = undefined;
    if (error !== undefined) throw error;
  }

  #notify(): void {
    this.#change.resolve();
    this.#change = deferred();
  }

  // The streams, one after the other.

  async #run(): Promise<void> {
    try {
      for (;;) {
        const [stream, ...ended] = await this.#stream();
        const next = this.#core.ended(stream, ended, now());
        this.#notify();
        if ("end" in next) {
          this.#error = next.end;
          return;
        }
        const { signal } = this.#stopping;
        await sleep(next.delay, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return;
      }
    } catch (error) {
      this.#error = error;
    } finally {
      this.#core.ledger.end(false);
      this.#done = true;
      clearTimeout(this.#due);
      this.#notify();
    }
  }

  /** Runs one stream from connecting to its end. */
  async #stream(): Promise<[OpenStream | undefined, How, GatewayError | undefined]> {
    const connection = new Connection(this.#core, {
      receive: (message) => this.#receive(connection, message),
      wake: () => this.#wake(),
      saidGoodbye: () => this.#tick(),
    });
    this.#connection = connection;
    try {
      const ended = connection.open();
      this.#tick();
      const error = await ended;
      const closing = this.#stopping.signal.aborted;
      return [
        connection.stream,
        ...this.#core.how(connection.stream, connection.failure ?? error, closing),
      ];
    } finally {
      this.#connection = undefined;
      connection.close();
    }
  }

  #receive(connection: Connection, message: SubscribeResponse): void {
    const time = now();
    connection.watch.heard(time);
    if (!connection.stream) {
      connection.stream = this.#core.opened(message, time);
      connection.watch.opened(connection.stream, time);
      if (this.#stopping.signal.aborted) this.#core.ledger.drain();
      this.#notify();
      this.#wake();
      this.#tick();
      return;
    }
    const batch = connection.stream.receive(message);
    if (!batch) return;
    if (this.#isOver()) {
      batch.release();
      return;
    }
    this.#inbox.put(batch);
    // Only if the gateway exceeds the credit; HTTP/2 then holds it back.
    if (this.#inbox.isFull) connection.pause();
    this.#notify();
  }

  /** There may be something to send. */
  #wake(): void {
    if (this.#core.ledger.isConfirming) this.#watchSoon();
    this.#connection?.wake();
  }

  // What is due.

  /** The goodbye began to wait: also that is bounded. */
  #watchSoon(): void {
    if (this.#confirming) return;
    this.#confirming = true;
    setImmediate(() => {
      this.#confirming = false;
      this.#tick();
    });
  }

  #tick(): void {
    clearTimeout(this.#due);
    this.#due = undefined;
    if (this.#done) return;
    const { ledger } = this.#core;
    const time = now();
    let due = Infinity;
    if (!ledger.closing) {
      if (time >= this.#stopUntil) ledger.close();
      else due = this.#stopUntil;
    }
    const connection = this.#connection;
    if (connection && !connection.stream && this.#stopping.signal.aborted) {
      connection.fail(undefined);
    } else if (connection) {
      const next = connection.watch.tick(time, this.#extends);
      if (typeof next === "number") due = Math.min(due, next);
      else connection.fail(next);
    }
    if (due !== Infinity) {
      this.#due = setTimeout(() => this.#tick(), Math.max(1, Math.ceil(due - time)));
    }
  }
}

interface Deferred {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

function deferred(): Deferred {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
