/** Times: milliseconds here, durations on the wire. */

import type { Duration } from "./gen/google/protobuf/duration.js";

/** Milliseconds as a duration of the protocol; what is below zero is zero. */
export function duration(ms: number): Duration {
  const micros = Math.round(Math.max(ms, 0) * 1_000);
  return {
    seconds: BigInt(Math.floor(micros / 1_000_000)),
    nanos: (micros % 1_000_000) * 1_000,
  };
}

/** A duration of the protocol as milliseconds. */
export function milliseconds(wire: Duration): number {
  return Number(wire.seconds) * 1_000 + wire.nanos / 1_000_000;
}

/** Milliseconds of a clock that does not go back. */
export function now(): number {
  return performance.now();
}
