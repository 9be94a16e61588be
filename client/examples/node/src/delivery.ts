/**
 * `Batch` and `Delivery`: records in hand, each to be answered once. The methods that answer
 * are cheap and never wait.
 */

import { over } from "./durable.js";
import { Fail, Reject, Release } from "./errors.js";
import type { Batch as WireBatch, Record as WireRecord } from "./gen/ackgate/v1/record.js";
import { ACK, type Answer, type Ledger, RELEASE } from "./ledger.js";
import { type LaneName, type Run, joined, part, size } from "./runs.js";
import { TraceContext } from "./trace.js";

/** The code of the failed verdict on a record whose handler threw anything unexpected. */
export const HANDLER = "handler";

/** Attempt and delivery number. */
type Numbers = readonly [attempt: number, delivery: number];

const FIRST: Numbers = [1, 1];

/** More about a failed verdict; `retryAfter` in ms. */
export interface FailOptions {
  readonly code?: string;
  readonly retryAfter?: number;
}

/**
 * Records of one lane, in offset order, as they came. Answer it as a whole, or iterate over its
 * deliveries and answer each; a later answer to the whole is for those that have none.
 */
export class Batch implements Iterable<Delivery> {
  readonly lane: bigint;
  readonly name: LaneName;
  /** What is at an attempt or a delivery above the first, by offset. */
  readonly #numbers = new Map<bigint, Numbers>();
  /** The gateway's own spans; few records have one, and usually none. */
  readonly #traces = new Map<bigint, TraceContext>();
  readonly #answered = new Set<bigint>();
  #runs: readonly Run[];

  /** A batch as it came; it must have a record. */
  constructor(
    readonly ledger: Ledger,
    public session: number,
    readonly records: readonly WireRecord[],
    wire: Omit<WireBatch, "records">,
  ) {
    this.lane = wire.lane;
    this.name = { topic: wire.topic, partition: wire.partition, epoch: wire.epoch };
    for (const { firstOffset, lastOffset, attempt, delivery } of wire.redeliveries) {
      for (let at = firstOffset; at <= lastOffset; at += 1n) {
        this.#numbers.set(at, [attempt, delivery]);
      }
    }
    for (const { offset, traceparent, tracestate } of wire.traces) {
      const context = TraceContext.parse(traceparent, tracestate);
      if (context) this.#traces.set(offset, context);
    }
    const [first, last] = [this.firstOffset, this.lastOffset];
    this.#runs =
      this.#numbers.size === 0 && last - first + 1n === BigInt(records.length)
        ? [{ lane: this.lane, delivery: 1, first, last }]
        : joined(records.map(({ offset }) => this.#one(offset)));
  }

  get topic(): string {
    return this.name.topic;
  }

  get partition(): number {
    return this.name.partition;
  }

  /** Offset of the first record. */
  get firstOffset(): bigint {
    return (this.records[0] as WireRecord).offset;
  }

  /** Offset of the last record. */
  get lastOffset(): bigint {
    return (this.records[this.records.length - 1] as WireRecord).offset;
  }

  /** The records that are the program's to answer, as runs. */
  get runs(): readonly Run[] {
    return this.#runs;
  }

  /** How many they are. */
  get size(): number {
    return this.#runs.reduce((sum, run) => sum + size(run), 0);
  }

  /** The records, each to be answered by itself. */
  *[Symbol.iterator](): Iterator<Delivery> {
    const whole = this.size === this.records.length;
    for (const record of this.records) {
      const { offset } = record;
      if (whole || this.#runs.some((run) => run.first <= offset && offset <= run.last)) {
        const [attempt, number] = this.#numbers.get(offset) ?? FIRST;
        yield new Delivery(this, record, attempt, number);
      }
    }
  }

  /** Says that the records are done. */
  ack(): void {
    this.#answer(ACK);
  }

  /** Refuses the records for good: they become dead letters now. */
  reject(code: string, reason = ""): void {
    this.#answer({ outcome: "rejected", code, reason });
  }

  /** Not this time: the records come again after a backoff, or after `retryAfter`. */
  fail(reason = "", { code = "", retryAfter }: FailOptions = {}): void {
    this.#answer({ outcome: "failed", code, reason, retryAfter });
  }

  /** Gives the records back untouched: again at once, elsewhere if possible. */
  release(): void {
    this.#answer(RELEASE);
  }

  /** Says that work goes on: the deadline becomes now plus `by` ms, at most 10 min. */
  extend(by: number): void {
    for (const run of this.#left()) this.ledger.extend(run, by);
  }

  /** After a reconnect: keeps only what the gateway kept. Returns whether it is any. */
  refresh(): boolean {
    if (this.isCurrent) return true;
    const kept = this.#runs.flatMap((run) => this.ledger.kept(run));
    this.#runs = kept.map((run) => ({ ...run, lane: this.lane }));
    this.session = this.ledger.session;
    return this.#runs.length > 0;
  }

  /** Whether it came from the stream of the moment. */
  get isCurrent(): boolean {
    return this.session === this.ledger.session && this.ledger.phase !== "over";
  }

  /** @internal */
  answerOne(run: Run, answer: Answer): void {
    this.#answered.add(run.first);
    this.ledger.answer(run, answer);
  }

  /** @internal */
  answerOneDurably(run: Run, answer: Answer): Promise<void> {
    this.#answered.add(run.first);
    return this.ledger.answerDurably(run, answer);
  }

  /** @internal */
  trace(offset: bigint): TraceContext | undefined {
    return this.#traces.get(offset);
  }

  #one(offset: bigint): Run {
    const [, delivery] = this.#numbers.get(offset) ?? FIRST;
    return { lane: this.lane, delivery, first: offset, last: offset };
  }

  #left(): readonly Run[] {
    if (this.#answered.size === 0) return this.#runs;
    const left: Run[] = [];
    for (const run of this.#runs) {
      for (let at = run.first; at <= run.last; at += 1n) {
        if (!this.#answered.has(at)) left.push(part(run, at, at));
      }
    }
    return joined(left);
  }

  #answer(answer: Answer): void {
    const left = this.#left();
    this.#runs = [];
    for (const run of left) this.ledger.answer(run, answer);
  }
}

/**
 * One hand-over of a record, waiting for its verdict. Without one it comes again once its
 * deadline has passed. It outlives a broken stream if the gateway keeps it; else the verdict is
 * reported as a problem of kind `lost`.
 */
export class Delivery {
  readonly #batch: Batch;
  readonly #record: WireRecord;
  #answered = false;

  constructor(
    batch: Batch,
    record: WireRecord,
    /** 1 plus the failed verdicts and expiries so far. */
    readonly attempt: number,
    /** 1 plus the earlier hand-overs. */
    readonly number: number,
  ) {
    this.#batch = batch;
    this.#record = record;
  }

  get topic(): string {
    return this.#batch.name.topic;
  }

  get partition(): number {
    return this.#batch.name.partition;
  }

  /** Number of the lane's history: a reset of the subscription starts a new one. */
  get epoch(): bigint {
    return this.#batch.name.epoch;
  }

  /** The record's position in its partition. */
  get offset(): bigint {
    return this.#record.offset;
  }

  /** Milliseconds since the Unix epoch; 0 if there is none. */
  get timestampMs(): bigint {
    return this.#record.timestampMs;
  }

  /** Null is Kafka's null; empty is empty. */
  get key(): Buffer | null {
    return this.#record.key ?? null;
  }

  /** Null is Kafka's null; empty is empty. */
  get value(): Buffer | null {
    return this.#record.value ?? null;
  }

  /** All headers in the record's order; a value of null is Kafka's null. */
  get headers(): [name: string, value: Buffer | null][] {
    return this.#record.headers.map(({ key, value }) => [key, value ?? null]);
  }

  /** The value of the last header of this name; undefined if there is none. */
  header(name: string): Buffer | null | undefined {
    const header = this.#record.headers.findLast(({ key }) => key === name);
    return header && (header.value ?? null);
  }

  /** Whether a verdict was given. */
  get answered(): boolean {
    return this.#answered;
  }

  /**
   * What work on the record continues: the gateway's span, if it traces the record, else what
   * its producer wrote into its headers; undefined if that is nothing valid.
   */
  get traceContext(): TraceContext | undefined {
    return this.#batch.trace(this.offset) ?? TraceContext.ofRecord(this.headers);
  }

  /** Says that the record is done. */
  ack(): void {
    this.#answer(ACK);
  }

  /** Refuses the record for good: it becomes a dead letter now. */
  reject(code: string, reason = ""): void {
    this.#answer({ outcome: "rejected", code, reason });
  }

  /**
   * As `ack`; the promise is kept once the verdict survives the loss of the gateway, or is
   * rejected with `NotDurable`. Needs `confirm: "durable"`. The verdict is given at once, whether
   * it is waited for or not.
   */
  ackDurably(): Promise<void> {
    return this.#answerDurably(ACK);
  }

  /** As `reject` and `ackDurably`: also its dead letter is safe then. */
  rejectDurably(code: string, reason = ""): Promise<void> {
    return this.#answerDurably({ outcome: "rejected", code, reason });
  }

  /** Not this time: the record comes again after a backoff, or after `retryAfter`. */
  fail(reason = "", { code = "", retryAfter }: FailOptions = {}): void {
    this.#answer({ outcome: "failed", code, reason, retryAfter });
  }

  /** Gives the record back untouched: again at once, elsewhere if possible. */
  release(): void {
    this.#answer(RELEASE);
  }

  /**
   * Says that work goes on: the deadline becomes now plus `by` ms, at most 10 min at a time and
   * 1 h in total. `run` does it by itself.
   */
  extend(by: number): void {
    if (by > 0 && !this.#answered) this.#batch.ledger.extend(this.#run(), by);
  }

  /** Whether it still counts what is said about it; a reconnect may have lost it. */
  get isOurs(): boolean {
    return this.#batch.isCurrent || this.#batch.ledger.kept(this.#run()).length > 0;
  }

  /** Gives the verdict that follows from how a handler ended, if it gave none itself. */
  conclude(ended: { readonly error: unknown } | undefined): void {
    if (this.#answered) return;
    if (!ended) return this.ack();
    const { error } = ended;
    if (error instanceof Reject) this.reject(error.code, error.reason);
    else if (error instanceof Fail) this.fail(error.reason, failOptions(error));
    else if (error instanceof Release) this.release();
    else this.fail(String(error), { code: HANDLER });
  }

  #run(): Run {
    const { offset } = this.#record;
    return { lane: this.#batch.lane, delivery: this.number, first: offset, last: offset };
  }

  #answerDurably(answer: Answer): Promise<void> {
    if (this.#answered) return over("the record was answered before");
    this.#answered = true;
    return this.#batch.answerOneDurably(this.#run(), answer);
  }

  #answer(answer: Answer): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#batch.answerOne(this.#run(), answer);
  }
}

function failOptions({ code, retryAfter }: Fail): FailOptions {
  return retryAfter === undefined ? { code } : { code, retryAfter };
}
