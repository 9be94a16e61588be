/**
 * The ledger: what the program has in hand, and its verdicts until the stream takes them.
 *
 * One for all streams of a subscriber, so that deliveries outlive a broken stream where the
 * gateway keeps them. It knows no timer and no socket, and calls `wake` when there may be
 * something to send. What is gathered is bounded by what is out, and so by the credit: each
 * record is answered once.
 */

import { Durable, Waits, type Watcher, over } from "./durable.js";
import type { Counters, Outcome } from "./events.js";
import type { Held, ResumeAnswer, Settled } from "./gen/ackgate/v1/gateway.js";
import { Fates, manifest } from "./resume.js";
import { HeldRuns, type LaneName, type Run, join, size } from "./runs.js";

/** Lanes beyond this are forgotten once nothing of them is in hand. */
const MANY_LANES = 10_000;

/** A verdict without its record. */
export interface Answer {
  readonly outcome: Outcome;
  readonly code?: string;
  readonly reason?: string;
  /** Milliseconds. */
  readonly retryAfter?: number | undefined;
}

export const ACK: Answer = { outcome: "acked" };
export const RELEASE: Answer = { outcome: "released" };

/** A verdict with its records. */
export interface Verdict {
  readonly run: Run;
  readonly answer: Answer;
}

/** What is sent at once. */
export interface Gathered {
  /** In the order given, joined where the next one followed. */
  acks: Run[];
  /** Other verdicts, in the order given. */
  answers: Verdict[];
  /** Each with its ms from now. */
  extensions: { run: Run; by: number }[];
  /** Who waits for a verdict in it to be durable. */
  watchers: Watcher[];
  credit?: { records: number; bytes: number } | undefined;
  beat: boolean;
  /** Nothing follows: say goodbye. */
  close: boolean;
}

/** Whether there is something to send: not, when the time for gathering is over, now. */
export type Readiness = "empty" | "soon" | "now" | "ended";

/** What there is of a stream; a broken one may be gone on with. */
export type Phase = "over" | "open" | "broken";

/** Where the verdicts of a subscriber meet. */
export class Ledger {
  /** Number of the latest stream, from 1 on. */
  session = 0;
  phase: Phase = "over";
  #gathered = nothing();
  /** Records answered since something was last taken. */
  #pending = 0;
  #held = new HeldRuns();
  #lanes = new Map<bigint, LaneName>();
  /** Lanes whose number has changed over a reconnect. */
  #renamed = new Map<bigint, bigint>();
  /** Say goodbye once nothing is in hand. */
  #draining = false;
  #closing = false;
  readonly #waits = new Waits();
  /** The goodbye does not wait for confirmations any longer. */
  #hurried = false;

  /** `durable`: durable confirmations are asked for. */
  constructor(
    readonly counters: Counters,
    readonly flushRecords: number,
    readonly wake: () => void,
    readonly durable = false,
  ) {}

  // The program's side.

  /** Takes the verdict on one record, and says when it is durable. */
  answerDurably(run: Run, answer: Answer): Promise<void> {
    if (!this.durable) {
      this.answer(run, answer);
      return over("the subscriber did not ask for durable confirmations");
    }
    const durable = new Durable();
    this.answer(run, answer, durable);
    return durable.promise;
  }

  /** Takes a verdict. What of `run` is not in hand any more is a problem `lost`. */
  answer(run: Run, answer: Answer, durable?: Durable): void {
    run = this.#now(run);
    if (this.#closing) {
      durable?.sessionEnded();
      this.counters.stats.staleAnswers += size(run);
      return;
    }
    const parts = this.#held.take(run);
    let taken = 0;
    for (const part of parts) {
      taken += size(part);
      this.#push(part, answer);
    }
    if (durable && taken > 0) this.#gathered.watchers.push({ run, durable });
    else durable?.sessionEnded();
    const before = this.#pending;
    this.#pending += taken;
    const wake =
      (before === 0 && taken > 0) ||
      (before < this.flushRecords && this.#pending >= this.flushRecords) ||
      (this.#draining && this.#held.size === 0);
    if (taken < size(run)) this.#tooLate(run, size(run) - taken, this.#lanes.get(run.lane));
    if (wake) this.wake();
  }

  /** Asks for more time, in ms from now; the latest wish for a run counts. */
  extend(run: Run, by: number): void {
    run = this.#now(run);
    if (this.#closing || !this.#held.has(run.lane, run.delivery, run.first)) {
      this.counters.stats.staleAnswers += size(run);
      return;
    }
    this.#gathered.extensions.push({ run, by });
    this.wake();
  }

  /** Asks for more time for all that is in hand. */
  extendHeld(by: number): void {
    if (this.#closing || this.phase !== "open" || this.#held.size === 0) return;
    this.#gathered.extensions = [...this.#held].map((run) => ({ run, by }));
    this.wake();
  }

  /** Asks for another credit. */
  credit(records: number, bytes: number): void {
    this.#gathered.credit = { records, bytes };
    this.wake();
  }

  /** Gives a sign of life. */
  beat(): void {
    this.#gathered.beat = true;
    this.wake();
  }

  /** Says goodbye once all that is in hand is answered. */
  drain(): void {
    this.#draining = true;
    this.wake();
  }

  /** Says goodbye after what is gathered; later verdicts do not count. */
  close(): void {
    this.#closing = true;
    this.wake();
  }

  /** Says goodbye also if the gateway has not confirmed everything. */
  hurry(): void {
    this.#hurried = true;
    this.wake();
  }

  // The stream's side.

  /** Whether only confirmations are waited for before the goodbye. */
  get isConfirming(): boolean {
    return this.#isLeaving() && !this.#mayClose(this.#gathered);
  }

  /** A message with this number is about to be sent, and these wait for its answer. */
  waiting(sequence: bigint, watchers: readonly Watcher[]): void {
    this.#waits.sent(sequence, watchers);
  }

  /** The gateway answers a message: ends the waits for it. */
  settled(wire: Settled): void {
    this.#waits.settled(wire);
    if (this.#isLeaving()) this.wake();
  }

  /** Whether there is something to send on the stream of this number. */
  readiness(session: number): Readiness {
    if (this.phase !== "open" || this.session !== session) return "ended";
    const { credit, beat, extensions } = this.#gathered;
    const now =
      (this.#isLeaving() && this.#mayClose(this.#gathered)) ||
      this.#pending >= this.flushRecords ||
      credit !== undefined ||
      beat ||
      extensions.length > 0;
    if (now) return "now";
    return this.#pending > 0 ? "soon" : "empty";
  }

  /** Takes all that is gathered. */
  take(): Gathered {
    this.#pending = 0;
    // Nothing counts after the goodbye, which releases what is still out.
    this.#closing = this.#isLeaving();
    const gathered = this.#gathered;
    this.#gathered = nothing();
    gathered.close = this.#closing && this.#mayClose(gathered);
    return gathered;
  }

  /** Begins a stream that keeps what `answers` say. Returns its number. */
  begin(answers: Iterable<ResumeAnswer>): number {
    this.session += 1;
    this.phase = "open";
    // The goodbye to a draining gateway was for its stream alone.
    this.#draining = this.#closing = this.#hurried = false;
    const lost = this.#keep(new Fates(answers));
    this.#forgetLanes();
    for (const [run, name] of lost) this.#tooLate(run, size(run), name);
    this.wake();
    return this.session;
  }

  /** The stream is gone. Not `broken`: nothing that came from it counts any more. */
  end(broken: boolean): void {
    this.#gathered.credit = undefined;
    this.#gathered.beat = false;
    this.#waits.end();
    if (broken && !this.#closing) {
      this.phase = "broken";
    } else {
      this.phase = "over";
      for (const { durable } of this.#gathered.watchers) durable.sessionEnded();
      this.#gathered = nothing();
      this.#held = new HeldRuns();
      this.counters.stats.staleAnswers += this.#pending;
      this.#pending = 0;
    }
    this.wake();
  }

  /** A batch has come. */
  handed(runs: Iterable<Run>, name: LaneName): void {
    for (const run of runs) {
      this.#held.insert(run);
      if (!this.#lanes.has(run.lane)) {
        this.#forgetLanes();
        this.#lanes.set(run.lane, name);
      }
    }
  }

  /** What to name to the gateway in the next stream. */
  manifest(): Held[] {
    const { acks, answers } = this.#gathered;
    const answered = answers.map(({ run }) => run);
    return manifest([...this.#held, ...acks, ...answered], this.#lanes);
  }

  /** The lane's name, if a batch of it is remembered. */
  name(lane: bigint): LaneName | undefined {
    return this.#lanes.get(lane);
  }

  /** The parts of `run` that are still the program's, under the lane's number of now. */
  kept(run: Run): Run[] {
    const parts = this.#held.take(this.#now(run));
    for (const part of parts) this.#held.insert(part);
    return parts;
  }

  /** Whether the goodbye was said or is about to be. */
  get closing(): boolean {
    return this.#closing;
  }

  /** Records in hand. */
  get out(): number {
    return this.#held.size;
  }

  #isLeaving(): boolean {
    return this.#closing || (this.#draining && this.#held.size === 0);
  }

  #mayClose({ watchers }: Gathered): boolean {
    return this.#hurried || (this.#waits.isEmpty && watchers.length === 0);
  }

  #now(run: Run): Run {
    const lane = this.#renamed.get(run.lane);
    return lane === undefined ? run : { ...run, lane };
  }

  #push(run: Run, answer: Answer): void {
    if (answer === ACK) {
      const { acks } = this.#gathered;
      const before = acks.at(-1);
      const both = before && join(before, run);
      if (both) acks[acks.length - 1] = both;
      else acks.push(run);
      return;
    }
    const { answers } = this.#gathered;
    const before = answers.at(-1);
    const both = before && isSame(before.answer, answer) ? join(before.run, run) : undefined;
    if (both) answers[answers.length - 1] = { run: both, answer };
    else answers.push({ run, answer });
  }

  /** Keeps what the gateway keeps; returns verdicts that came too late. */
  #keep(fates: Fates): [Run, LaneName | undefined][] {
    const lost: [Run, LaneName | undefined][] = [];
    const renamed = new Map<bigint, bigint>();
    const names = new Map(this.#lanes);
    const kept = (run: Run, answered: boolean): Run[] => {
      const name = this.#lanes.get(run.lane);
      const parts: Run[] = [];
      for (const { run: part, fate } of fates.of(run, name)) {
        if (fate === "lost" && answered) lost.push([part, name]);
        if (fate !== "kept" || !name) continue;
        if (part.lane !== run.lane) {
          renamed.set(run.lane, part.lane);
          names.set(part.lane, name);
        }
        parts.push(part);
      }
      return parts;
    };
    const held = new HeldRuns();
    for (const run of this.#held) for (const part of kept(run, false)) held.insert(part);
    const before = this.#gathered;
    this.#gathered = { ...nothing(), credit: before.credit };
    this.#pending = 0;
    const push = (run: Run, answer: Answer): void => {
      for (const part of kept(run, true)) {
        this.#pending += size(part);
        this.#push(part, answer);
      }
    };
    for (const run of before.acks) push(run, ACK);
    for (const { run, answer } of before.answers) push(run, answer);
    this.#gathered.extensions = before.extensions.flatMap(({ run, by }) =>
      kept(run, false).map((part) => ({ run: part, by })),
    );
    for (const { run, durable } of before.watchers) {
      const [still] = kept(run, false);
      if (still) this.#gathered.watchers.push({ run: still, durable });
      else durable.sessionEnded();
    }
    this.#held = held;
    this.#lanes = names;
    for (const [old, lane] of this.#renamed) {
      const moved = renamed.get(lane) ?? lane;
      if (held.hasLane(moved)) this.#renamed.set(old, moved);
      else this.#renamed.delete(old);
    }
    for (const [old, lane] of renamed) this.#renamed.set(old, lane);
    return lost;
  }

  #forgetLanes(): void {
    if (this.#lanes.size < MANY_LANES) return;
    for (const lane of this.#lanes.keys()) {
      if (!this.#held.hasLane(lane)) this.#lanes.delete(lane);
    }
  }

  #tooLate(run: Run, records: number, name: LaneName | undefined): void {
    this.counters.stats.staleAnswers += records;
    this.counters.tell({
      type: "problem",
      topic: name?.topic ?? "",
      partition: name?.partition ?? -1,
      firstOffset: run.first,
      lastOffset: run.last,
      kind: "lost",
      detail: "",
    });
  }
}

function nothing(): Gathered {
  return { acks: [], answers: [], extensions: [], watchers: [], beat: false, close: false };
}

function isSame(a: Answer, b: Answer): boolean {
  return (
    a.outcome === b.outcome &&
    a.code === b.code &&
    a.reason === b.reason &&
    a.retryAfter === b.retryAfter
  );
}
