/** What is gathered, as messages of one stream. */

import { Outcome as WireOutcome, SubscribeRequest, Verdict as WireVerdict } from "./gen/ackgate/v1/gateway.js";
import type { Durable, Watcher } from "./durable.js";
import type { Counters, Outcome } from "./events.js";
import { ACK, type Gathered, type Ledger, type Verdict } from "./ledger.js";
import { type Run, joined, part } from "./runs.js";
import { duration } from "./time.js";

/** Most verdicts in a message if the gateway does not say. */
export const MAX_VERDICTS = 10_000;

/** Largest message of verdicts: well below what gRPC servers accept by default. */
const MAX_BYTES = 1 << 20;

const MAX_CODE = 128;
const MAX_REASON = 1_024;

/** Most that an extension may ask for, and a failed verdict, in ms. */
const MAX_EXTENSION = 600_000;
const MAX_RETRY_AFTER = 3_600_000;

const OUTCOMES: Readonly<Record<Outcome, WireOutcome>> = {
  acked: WireOutcome.ACKED,
  rejected: WireOutcome.REJECTED,
  failed: WireOutcome.FAILED,
  released: WireOutcome.RELEASED,
};

/** A message, and the verdicts in it. */
export interface Outgoing {
  readonly request: SubscribeRequest;
  readonly verdicts: readonly Verdict[];
  /** Who waits for its answer. */
  readonly watchers: readonly Watcher[];
}

/** Builds the messages of one stream, numbering those that are answered. */
export class Messages {
  readonly #max: number;
  #sequence = 0n;

  /** `maxVerdicts`: what the gateway allows; 0: it did not say. */
  constructor(maxVerdicts: number) {
    this.#max = Math.min(maxVerdicts || MAX_VERDICTS, MAX_VERDICTS);
  }

  /**
   * The messages, in the order to be sent. Extensions go before verdicts: a verdict on the same
   * record would make them late.
   */
  *build(gathered: Gathered): Iterable<Outgoing> {
    if (gathered.beat) yield only({ $case: "beat", value: {} });
    if (gathered.credit) {
      const { records, bytes } = gathered.credit;
      yield only({ $case: "credit", value: { records, bytes: BigInt(bytes) } });
    }
    yield* this.#extensions(gathered.extensions);
    const acks = joined(gathered.acks).map((run) => ({ run, answer: ACK }));
    yield* this.#settles([...acks, ...gathered.answers], gathered.watchers);
    if (gathered.close) yield only({ $case: "close", value: {} });
  }

  *#extensions(gathered: Gathered["extensions"]): Iterable<Outgoing> {
    const byTime = new Map<number, Run[]>();
    for (const { run, by } of gathered) {
      const time = Math.min(by, MAX_EXTENSION);
      const runs = byTime.get(time);
      if (runs) runs.push(run);
      else byTime.set(time, [run]);
    }
    for (const [by, runs] of byTime) {
      const whole = joined(runs);
      for (let at = 0; at < whole.length; at += this.#max) {
        const extensions = whole.slice(at, at + this.#max).map((run) => ({
          lane: run.lane,
          firstOffset: run.first,
          lastOffset: run.last === run.first ? undefined : run.last,
        }));
        const value = { sequence: this.#next(), extensions, by: duration(by) };
        yield only({ $case: "extend", value });
      }
    }
  }

  *#settles(all: readonly Verdict[], watchers: readonly Watcher[]): Iterable<Outgoing> {
    const waiting = new Map(watchers.map(({ run, durable }) => [key(run, run.first), durable]));
    let [verdicts, inside, bytes]: [WireVerdict[], Verdict[], number] = [[], [], 0];
    const settle = (): Outgoing => {
      const value = { sequence: this.#next(), verdicts };
      const request = { request: { $case: "settle" as const, value } };
      const outgoing = { request, verdicts: inside, watchers: watching(inside, waiting) };
      [verdicts, inside, bytes] = [[], [], 0];
      return outgoing;
    };
    for (const verdict of all) {
      const wire = toWire(verdict);
      verdicts.push(wire);
      inside.push(verdict);
      // Numbers take at most this much; texts take what they have.
      bytes += 64 + wire.code.length * 3 + wire.reason.length * 3;
      if (inside.length >= this.#max || bytes >= MAX_BYTES) yield settle();
    }
    if (inside.length > 0) yield settle();
  }

  #next(): bigint {
    this.#sequence += 1n;
    return this.#sequence;
  }
}

/** Tells of the verdicts in a message once it is handed to the stream. */
export function tellSent(outgoing: Outgoing, ledger: Ledger, counters: Counters): void {
  for (const { run, answer } of outgoing.verdicts) {
    const name = ledger.name(run.lane);
    counters.tell({
      type: "sent",
      topic: name?.topic ?? "",
      partition: name?.partition ?? -1,
      firstOffset: run.first,
      lastOffset: run.last,
      delivery: run.delivery,
      outcome: answer.outcome,
    });
  }
}

/** A verdict on the wire. Long codes and reasons are cut: they never cost the verdict. */
export function toWire({ run, answer }: Verdict): WireVerdict {
  const { retryAfter } = answer;
  return {
    lane: run.lane,
    firstOffset: run.first,
    lastOffset: run.last === run.first ? undefined : run.last,
    delivery: run.delivery,
    outcome: OUTCOMES[answer.outcome],
    code: cut(answer.code ?? "", MAX_CODE),
    reason: cut(answer.reason ?? "", MAX_REASON),
    retryAfter:
      retryAfter === undefined ? undefined : duration(Math.min(retryAfter, MAX_RETRY_AFTER)),
  };
}

/** The longest beginning of `text` that takes at most this many bytes of UTF-8. */
export function cut(text: string, most: number): string {
  const raw = Buffer.from(text, "utf8");
  if (raw.length <= most) return raw.toString("utf8");
  let end = most;
  while (end > 0 && ((raw[end] as number) & 0xc0) === 0x80) end -= 1;
  return raw.subarray(0, end).toString("utf8");
}

/** Those who wait for one of these verdicts. */
function watching(verdicts: readonly Verdict[], waiting: ReadonlyMap<string, Durable>): Watcher[] {
  const found: Watcher[] = [];
  if (waiting.size === 0) return found;
  for (const { run } of verdicts) {
    for (let at = run.first; at <= run.last; at += 1n) {
      const durable = waiting.get(key(run, at));
      if (durable) found.push({ run: part(run, at, at), durable });
    }
  }
  return found;
}

function key({ lane, delivery }: Run, offset: bigint): string {
  return `${lane}/${delivery}/${offset}`;
}

function only(request: NonNullable<SubscribeRequest["request"]>): Outgoing {
  return { request: { request }, verdicts: [], watchers: [] };
}
