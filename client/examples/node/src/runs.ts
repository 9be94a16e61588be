/**
 * Runs of records, and which of them a program has in hand.
 *
 * Invariant: a verdict counts only for what is in a `HeldRuns`, and takes it out; so each
 * delivery is answered once at most. Offsets and lanes are bigint: no number loses a digit.
 */

/** Records of one lane that follow each other and have the same delivery number. */
export interface Run {
  readonly lane: bigint;
  readonly delivery: number;
  readonly first: bigint;
  /** Included. */
  readonly last: bigint;
}

/** A lane as its records name it; the number changes from stream to stream. */
export interface LaneName {
  readonly topic: string;
  readonly partition: number;
  readonly epoch: bigint;
}

/** Number of records. */
export function size(run: Run): number {
  return Number(run.last - run.first) + 1;
}

/** The records from `first` to `last`, both included. */
export function part(run: Run, first: bigint, last: bigint): Run {
  return { lane: run.lane, delivery: run.delivery, first, last };
}

/** Orders by lane, delivery and offset. */
export function compare(a: Run, b: Run): number {
  if (a.lane !== b.lane) return a.lane < b.lane ? -1 : 1;
  if (a.delivery !== b.delivery) return a.delivery - b.delivery;
  return a.first < b.first ? -1 : a.first > b.first ? 1 : 0;
}

/** The run of both, if one follows the other without a gap. */
export function join(a: Run, b: Run): Run | undefined {
  if (a.lane !== b.lane || a.delivery !== b.delivery) return undefined;
  if (a.last + 1n === b.first) return part(a, a.first, b.last);
  if (b.last + 1n === a.first) return part(a, b.first, a.last);
  return undefined;
}

/**
 * Joins what follows each other without a gap, given in any order.
 *
 * Offsets that are missing in between are never spanned: they may be a gap of the log, but
 * also a record that is on its way in another batch.
 */
export function joined(runs: Iterable<Run>): Run[] {
  const result: Run[] = [];
  for (const run of [...runs].sort(compare)) {
    const before = result.at(-1);
    const both = before && before.last < run.first ? join(before, run) : undefined;
    if (both) result[result.length - 1] = both;
    else result.push(run);
  }
  return result;
}

/** First and last offsets, each in ascending order. */
interface Spans {
  readonly firsts: bigint[];
  readonly lasts: bigint[];
}

/** Runs by lane and delivery number; neighbours are one. */
export class HeldRuns {
  readonly #lanes = new Map<bigint, Map<number, Spans>>();
  #size = 0;

  /** Number of records. */
  get size(): number {
    return this.#size;
  }

  /** All runs, by lane, delivery and offset. */
  *[Symbol.iterator](): Iterator<Run> {
    for (const [lane, deliveries] of this.#lanes) {
      for (const [delivery, { firsts, lasts }] of deliveries) {
        for (const [at, first] of firsts.entries()) {
          yield { lane, delivery, first, last: lasts[at] ?? first };
        }
      }
    }
  }

  /** Takes in a run; what is in already counts once. */
  insert(run: Run): void {
    const { firsts, lasts } = this.#spans(run);
    let low = bisect(firsts, run.first);
    if (low > 0 && (lasts[low - 1] as bigint) >= run.first - 1n) low -= 1;
    const high = bisect(firsts, run.last + 2n);
    let { first, last } = run;
    for (let at = low; at < high; at += 1) {
      const [from, to] = [firsts[at] as bigint, lasts[at] as bigint];
      if (from < first) first = from;
      if (to > last) last = to;
      this.#size -= Number(to - from) + 1;
    }
    firsts.splice(low, high - low, first);
    lasts.splice(low, high - low, last);
    this.#size += Number(last - first) + 1;
  }

  /** Takes out what is held of `run`, and returns it in order. */
  take(run: Run): Run[] {
    const deliveries = this.#lanes.get(run.lane);
    const spans = deliveries?.get(run.delivery);
    if (!deliveries || !spans) return [];
    const { firsts, lasts } = spans;
    let low = bisect(firsts, run.first + 1n) - 1;
    if (low < 0 || (lasts[low] as bigint) < run.first) low += 1;
    const high = bisect(firsts, run.last + 1n);
    if (low >= high) return [];
    const taken: Run[] = [];
    const left: [bigint, bigint][] = [];
    for (let at = low; at < high; at += 1) {
      const [from, to] = [firsts[at] as bigint, lasts[at] as bigint];
      if (from < run.first) left.push([from, run.first - 1n]);
      if (to > run.last) left.push([run.last + 1n, to]);
      const first = from > run.first ? from : run.first;
      const last = to < run.last ? to : run.last;
      taken.push(part(run, first, last));
      this.#size -= Number(last - first) + 1;
    }
    firsts.splice(low, high - low, ...left.map(([first]) => first));
    lasts.splice(low, high - low, ...left.map(([, last]) => last));
    if (firsts.length === 0) {
      deliveries.delete(run.delivery);
      if (deliveries.size === 0) this.#lanes.delete(run.lane);
    }
    return taken;
  }

  /** Whether the record is held under this number. */
  has(lane: bigint, delivery: number, offset: bigint): boolean {
    const spans = this.#lanes.get(lane)?.get(delivery);
    if (!spans) return false;
    const at = bisect(spans.firsts, offset + 1n) - 1;
    return at >= 0 && (spans.lasts[at] as bigint) >= offset;
  }

  /** Whether anything of the lane is held. */
  hasLane(lane: bigint): boolean {
    return this.#lanes.has(lane);
  }

  #spans(run: Run): Spans {
    let deliveries = this.#lanes.get(run.lane);
    if (!deliveries) this.#lanes.set(run.lane, (deliveries = new Map()));
    let spans = deliveries.get(run.delivery);
    if (!spans) deliveries.set(run.delivery, (spans = { firsts: [], lasts: [] }));
    return spans;
  }
}

/** Index of the first that is not below `value`. */
export function bisect(ascending: readonly bigint[], value: bigint): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as bigint) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
