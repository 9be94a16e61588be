/** How far apart tries are: exponential, with full jitter. */

/** Longest wait before the first retry, in ms. */
export const FIRST = 250;

/** Longest wait of all, in ms. */
export const MOST = 30_000;

/** Longest wait that a gateway can ask for, in ms. */
export const MOST_ASKED = 60_000;

/** Counts failures in a row and spaces them out. */
export class Backoff {
  failures = 0;
  readonly #random: () => number;

  /** `addresses` are tried in turn: a round over all of them is one step. */
  constructor(
    random: () => number = Math.random,
    readonly addresses = 1,
  ) {
    this.#random = random;
  }

  /** Milliseconds before the next stream, after one that ended well. */
  afterSuccess(): number {
    this.failures = 0;
    return this.#random() * FIRST;
  }

  /** Milliseconds before the next try. `useful`: the stream had brought something. */
  afterFailure(useful: boolean, retryAfter = 0): number {
    if (useful) this.failures = 0;
    // Beyond this many the longest wait is reached; no number grows for ever.
    const steps = Math.floor(this.failures / this.addresses);
    const most = Math.min(MOST, FIRST * 2 ** Math.min(steps, 10));
    this.failures += 1;
    // Jitter also above the least: all who were told the same would come at once.
    return Math.min(retryAfter, MOST_ASKED) + this.#random() * most;
  }
}
