/** Going on after a broken stream: what is named to the gateway, and what its answer leaves. */

import { type Held, type ResumeAnswer, ResumeResult } from "./gen/ackgate/v1/gateway.js";
import { HeldRuns, type LaneName, type Run, compare, part } from "./runs.js";

/** Most runs that a gateway takes. What is beyond is delivered again. */
export const MOST_RUNS = 10_000;

/** What became of a part of a run. A kept one has its lane's number of now. */
export interface Part {
  readonly run: Run;
  readonly fate: "kept" | "settled" | "lost";
}

/**
 * What is worked on, as the gateway is told. Of two deliveries of one record it is the later
 * one: the earlier is over.
 */
export function manifest(runs: Iterable<Run>, lanes: ReadonlyMap<bigint, LaneName>): Held[] {
  const named = new HeldRuns();
  const held: Held[] = [];
  const latestFirst = [...runs].sort((a, b) => b.delivery - a.delivery || compare(a, b));
  for (const run of latestFirst) {
    const name = lanes.get(run.lane);
    if (!name) continue;
    for (const [firstOffset, lastOffset] of notIn(named, run)) {
      if (held.length >= MOST_RUNS) return held;
      held.push({ ...name, firstOffset, lastOffset, delivery: run.delivery });
    }
    named.insert({ ...run, delivery: 0 });
  }
  return held;
}

/** The parts of `run` that no later delivery names. */
function notIn(named: HeldRuns, run: Run): [bigint, bigint][] {
  const parts: [bigint, bigint][] = [];
  let at = run.first;
  for (const taken of named.take({ ...run, delivery: 0 })) {
    named.insert(taken);
    if (at < taken.first) parts.push([at, taken.first - 1n]);
    at = taken.last + 1n;
  }
  if (at <= run.last) parts.push([at, run.last]);
  return parts;
}

/** The gateway's answer to a manifest. What has no answer is lost. */
export class Fates {
  readonly #parts = new Map<string, ResumeAnswer[]>();

  constructor(answers: Iterable<ResumeAnswer>) {
    for (const answer of answers) {
      const key = `${answer.partition}/${answer.topic}`;
      const parts = this.#parts.get(key);
      if (parts) parts.push(answer);
      else this.#parts.set(key, [answer]);
    }
    for (const parts of this.#parts.values()) {
      parts.sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1));
    }
  }

  /** The parts of `run`, in order. */
  *of(run: Run, name: LaneName | undefined): Iterable<Part> {
    const parts = name ? (this.#parts.get(`${name.partition}/${name.topic}`) ?? []) : [];
    let at = run.first;
    for (const answer of parts.slice(before(parts, run.first))) {
      if (answer.firstOffset > run.last) break;
      const first = answer.firstOffset > at ? answer.firstOffset : at;
      const last = answer.lastOffset < run.last ? answer.lastOffset : run.last;
      if (first > last) continue;
      if (at < first) yield { run: part(run, at, first - 1n), fate: "lost" };
      if (answer.result === ResumeResult.KEPT) {
        yield { run: { ...part(run, first, last), lane: answer.lane }, fate: "kept" };
      } else {
        const settled = answer.result === ResumeResult.SETTLED;
        yield { run: part(run, first, last), fate: settled ? "settled" : "lost" };
      }
      at = last + 1n;
    }
    if (at <= run.last) yield { run: part(run, at, run.last), fate: "lost" };
  }
}

/** Index of the last part that begins at or before `offset`. */
function before(parts: readonly ResumeAnswer[], offset: bigint): number {
  let [low, high] = [0, parts.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((parts[middle] as ResumeAnswer).firstOffset <= offset) low = middle + 1;
    else high = middle;
  }
  return Math.max(low - 1, 0);
}
