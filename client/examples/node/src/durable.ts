/**
 * Waits until a verdict survives the loss of the gateway, or will not. Each wait ends: with the
 * gateway's answer, or with its stream.
 */

import { type ProblemKind, problemKind } from "./events.js";
import type { Settled } from "./gen/ackgate/v1/gateway.js";
import type { Run } from "./runs.js";

/**
 * A verdict is not known to be durable: the record may come again. `kind` is what the gateway
 * said of it; without one nobody asked for durable confirmations, or the stream ended before
 * the answer, and the verdict may have become durable all the same.
 */
export class NotDurable extends Error {
  override readonly name = "NotDurable";

  constructor(
    what: string,
    readonly kind?: ProblemKind,
  ) {
    super(what);
  }
}

/** A wait, from its owner's side. Ends once. */
export class Durable {
  readonly promise: Promise<void>;
  #resolve!: () => void;
  #reject!: (error: NotDurable) => void;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Nobody has to wait for it.
    this.promise.catch(() => undefined);
  }

  /** Ends it. */
  end(error?: NotDurable): void {
    if (error) this.#reject(error);
    else this.#resolve();
  }

  /** Ends it, as the answer did not come. */
  sessionEnded(): void {
    this.end(new NotDurable("the stream ended before the verdict was confirmed"));
  }
}

/** A wait that is over: nobody will tell. */
export function over(what: string): Promise<void> {
  const durable = new Durable();
  durable.end(new NotDurable(what));
  return durable.promise;
}

/** Who waits for the verdict on one record. */
export interface Watcher {
  readonly run: Run;
  readonly durable: Durable;
}

interface Message {
  /** By lane and offset. */
  readonly watchers: ReadonlyMap<string, Watcher>;
  readonly failed: Map<string, ProblemKind>;
}

/** The messages of one stream whose verdicts somebody waits for. */
export class Waits {
  readonly #open = new Map<bigint, Message>();

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** A message with this number is about to be sent. */
  sent(sequence: bigint, watchers: readonly Watcher[]): void {
    const keyed = watchers.map((it): [string, Watcher] => [key(it.run.lane, it.run.first), it]);
    this.#open.set(sequence, { watchers: new Map(keyed), failed: new Map() });
  }

  /** Takes the gateway's answer and ends the waits for it. */
  settled({ sequence, answers, more }: Settled): void {
    const message = this.#open.get(sequence);
    if (!message) return;
    for (const { lane, firstOffset, lastOffset, result } of answers) {
      const kind = problemKind(result);
      // An equal verdict given before is as good.
      if (kind === "duplicate") continue;
      for (const at of hit(message.watchers, lane, firstOffset, lastOffset)) {
        if (!message.failed.has(at)) message.failed.set(at, kind);
      }
    }
    if (more) return;
    this.#open.delete(sequence);
    for (const [at, { durable }] of message.watchers) {
      const kind = message.failed.get(at);
      durable.end(kind && new NotDurable(`the verdict did not become durable: ${kind}`, kind));
    }
  }

  /** The stream is over. */
  end(): void {
    for (const { watchers } of this.#open.values()) {
      for (const { durable } of watchers.values()) durable.sessionEnded();
    }
    this.#open.clear();
  }
}

/** Whose records are within, looked up by the record or by the watcher, whichever are fewer. */
function* hit(
  watchers: Message["watchers"],
  lane: bigint,
  first: bigint,
  last: bigint,
): Iterable<string> {
  if (last - first < BigInt(watchers.size)) {
    for (let at = first; at <= last; at += 1n) {
      if (watchers.has(key(lane, at))) yield key(lane, at);
    }
    return;
  }
  for (const [at, { run }] of watchers) {
    if (run.lane === lane && first <= run.first && run.first <= last) yield at;
  }
}

function key(lane: bigint, offset: bigint): string {
  return `${lane}/${offset}`;
}
