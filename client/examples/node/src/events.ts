/** What a subscriber tells of itself: events, counts, and verdicts that changed nothing. */

import type { Batch } from "./delivery.js";
import type { GatewayError } from "./errors.js";
import { VerdictResult } from "./gen/ackgate/v1/gateway.js";

/** Most problems that are kept; the oldest goes first. */
export const KEPT_PROBLEMS = 1_000;

/** The verdict on a record. */
export type Outcome = "acked" | "rejected" | "failed" | "released";

/** What became of a verdict that changed nothing. */
export type ProblemKind =
  | "duplicate"
  | "conflict"
  | "stale"
  | "fenced"
  | "unknown"
  | "expired"
  | "invalid"
  /** A kind that this version does not know. */
  | "other"
  /** It did not survive a reconnect: the record comes again, and the verdict was not sent. */
  | "lost";

/** A verdict, or an extension, that changed nothing. */
export interface Problem {
  readonly type: "problem";
  /** Empty if no batch of the lane is remembered; the partition is -1 then. */
  readonly topic: string;
  readonly partition: number;
  readonly firstOffset: bigint;
  readonly lastOffset: bigint;
  readonly kind: ProblemKind;
  /** For `invalid`: a stable reason code. */
  readonly detail: string;
}

/** Verdicts were handed to the stream. */
export interface Sent {
  readonly type: "sent";
  readonly topic: string;
  readonly partition: number;
  readonly firstOffset: bigint;
  readonly lastOffset: bigint;
  readonly delivery: number;
  readonly outcome: Outcome;
}

/** What can happen. */
export type Event =
  /** A stream is open. `resumed`: runs that the gateway kept; `ackDeadline` in ms. */
  | {
      readonly type: "opened";
      readonly session: string;
      readonly subscriberId: string;
      readonly resumed: number;
      readonly ackDeadline: number;
    }
  /** A batch has come. */
  | { readonly type: "received"; readonly batch: Batch }
  | Sent
  | Problem
  /** The gateway asks to finish within `deadline` ms and to come again. */
  | { readonly type: "draining"; readonly reason: string; readonly deadline: number }
  /** Something happened to a lane; informative. */
  | {
      readonly type: "lane";
      readonly topic: string;
      readonly partition: number;
      readonly kind: string;
      readonly detail: string;
    }
  /** The stream broke; another is tried in `retryIn` ms. */
  | { readonly type: "disconnected"; readonly error: GatewayError; readonly retryIn: number };

/** Called at once, from within: it must be quick, and must not throw. */
export type Observer = (event: Event) => void;

/** Counts since the subscriber was made, over all its streams. */
export interface Stats {
  /** Records received, redeliveries included. */
  records: number;
  batches: number;
  /** Records whose acked verdict was handed to the stream; so for the next three. */
  acked: number;
  rejected: number;
  failed: number;
  released: number;
  /** Records whose verdict came too late to be sent: the gateway hands them out again. */
  staleAnswers: number;
  /** Records received but not handed to the program, as their stream ended before. */
  discarded: number;
  streams: number;
}

/** The living counts, and the latest problems. */
export class Counters {
  readonly stats: Stats = {
    records: 0,
    batches: 0,
    acked: 0,
    rejected: 0,
    failed: 0,
    released: 0,
    staleAnswers: 0,
    discarded: 0,
    streams: 0,
  };
  readonly problems: Problem[] = [];

  constructor(readonly observer: Observer | undefined) {}

  /** Tells the observer, and keeps or counts it. */
  tell(event: Event): void {
    if (event.type === "problem") {
      if (this.problems.length >= KEPT_PROBLEMS) this.problems.shift();
      this.problems.push(event);
    } else if (event.type === "sent") {
      this.stats[event.outcome] += Number(event.lastOffset - event.firstOffset) + 1;
    }
    this.observer?.(event);
  }
}

/** Reads what the gateway says of a verdict. */
export function problemKind(result: VerdictResult): ProblemKind {
  return KINDS.get(result) ?? "other";
}

const KINDS: ReadonlyMap<VerdictResult, ProblemKind> = new Map([
  [VerdictResult.DUPLICATE, "duplicate"],
  [VerdictResult.CONFLICT, "conflict"],
  [VerdictResult.STALE, "stale"],
  [VerdictResult.FENCED, "fenced"],
  [VerdictResult.UNKNOWN, "unknown"],
  [VerdictResult.EXPIRED, "expired"],
  [VerdictResult.INVALID, "invalid"],
]);
