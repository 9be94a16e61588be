/** The times of one connection: what is due when, and what has come too late. */

import type { OpenStream } from "./core.js";
import { type GatewayError, NotClosed, NotOpened, Silent } from "./errors.js";
import type { Ledger } from "./ledger.js";
import type { Options } from "./options.js";

/** Told the time, never asks for it. In ms, by any clock that does not go back. */
export class Watch {
  readonly #openUntil: number;
  #stream: OpenStream | undefined;
  #closingUntil = Infinity;
  #confirmedUntil: number | undefined;
  #heard: number;
  #nextBeat = 0;
  #nextExtension = 0;

  constructor(
    readonly options: Options,
    readonly ledger: Ledger,
    now: number,
  ) {
    this.#openUntil = now + options.openTimeout;
    this.#heard = now;
  }

  /** The stream is open. */
  opened(stream: OpenStream, now: number): void {
    this.#stream = stream;
    this.#nextBeat = now + stream.beat;
    this.#nextExtension = now + stream.ackDeadline / 3;
  }

  /** Something came. */
  heard(now: number): void {
    this.#heard = now;
  }

  /** The end of the stream is to follow. */
  saidGoodbye(now: number): void {
    this.#closingUntil = now + this.options.closeTimeout;
  }

  /**
   * Does what is due. Returns when to look again, or why the connection is to end. `extends_`:
   * what is in hand gets more time.
   */
  tick(now: number, extends_: boolean): number | GatewayError {
    const stream = this.#stream;
    if (now >= this.#closingUntil) return new NotClosed(this.options.closeTimeout);
    if (!stream) {
      return now >= this.#openUntil ? new NotOpened(this.options.openTimeout) : this.#openUntil;
    }
    let due = Math.min(now + 60_000, this.#closingUntil, this.#confirming(now));
    if (stream.silence > 0) {
      const until = this.#heard + stream.silence;
      if (now >= until) return new Silent(stream.silence);
      due = Math.min(due, until);
    }
    if (stream.beat > 0) {
      if (now >= this.#nextBeat) {
        this.#nextBeat = now + stream.beat;
        this.ledger.beat();
      }
      due = Math.min(due, this.#nextBeat);
    }
    if (extends_ && stream.ackDeadline > 0) {
      if (now >= this.#nextExtension) {
        this.#nextExtension = now + stream.ackDeadline / 3;
        this.ledger.extendHeld(stream.ackDeadline);
      }
      due = Math.min(due, this.#nextExtension);
    }
    return due;
  }

  /** The goodbye waits for durable confirmations, but not for ever. */
  #confirming(now: number): number {
    if (!this.ledger.isConfirming) return Infinity;
    this.#confirmedUntil ??= now + this.options.closeTimeout;
    if (now < this.#confirmedUntil) return this.#confirmedUntil;
    this.ledger.hurry();
    return Infinity;
  }
}
