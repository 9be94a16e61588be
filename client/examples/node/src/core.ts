/**
 * What a subscriber does whatever carries it: no timer, no socket. `subscriber` sends what this
 * builds, shows it what comes, and does what it says next.
 */

import { type Addresses, Gateways } from "./addresses.js";
import { Backoff, MOST } from "./backoff.js";
import { Batch } from "./delivery.js";
import { type GatewayError, ProtocolError, SUPERSEDED, StreamEnded } from "./errors.js";
import { Counters, type Observer, problemKind } from "./events.js";
import {
  type Drain,
  DrainReason,
  LaneEventKind,
  type Opened,
  ResumeResult,
  type SubscribeRequest,
  type SubscribeResponse,
} from "./gen/ackgate/v1/gateway.js";
import type { Batch as WireBatch } from "./gen/ackgate/v1/record.js";
import { explained } from "./handshake.js";
import { Ledger, type Readiness } from "./ledger.js";
import { Messages, type Outgoing, tellSent } from "./messages.js";
import { type Options, opening } from "./options.js";
import { milliseconds } from "./time.js";

/**
 * How a stream ended: the subscriber said goodbye or there is nothing left for it; the gateway
 * asked for the end and everything was answered; anything else.
 */
export type How = "closed" | "drained" | "failed";

/** What follows: another stream in `delay` ms; or the end, with or without an error. */
export type Next = { readonly delay: number } | { readonly end: GatewayError | undefined };

/** One stream from `Opened` to its end. */
export class OpenStream {
  readonly number: number;
  readonly ackDeadline: number;
  /** Longest silence in ms; 0: the gateway promises no pings. */
  readonly silence: number;
  /** How often in ms to give a sign of life; 0: never. */
  readonly beat: number;
  draining = false;
  /** It drains because the gateway stops. */
  stops = false;
  useful = false;
  readonly #core: Core;
  readonly #messages: Messages;

  constructor(
    core: Core,
    opened: Opened,
    readonly begun: number,
  ) {
    const { settings } = opened;
    const ms = (wire: Parameters<typeof milliseconds>[0] | undefined): number =>
      wire ? milliseconds(wire) : 0;
    this.#core = core;
    this.#messages = new Messages(settings?.maxVerdicts ?? 0);
    this.ackDeadline = ms(settings?.ackDeadline);
    this.silence = 2 * ms(settings?.pingInterval);
    this.beat = ms(settings?.leaseBeat);
    this.number = core.ledger.begin(opened.resumed);
  }

  /** Takes a message in; returns it if it is a batch. */
  receive({ response }: SubscribeResponse): Batch | undefined {
    const { counters, ledger } = this.#core;
    switch (response?.$case) {
      case "batch":
        return this.#batch(response.value);
      case "settled":
        for (const answer of response.value.answers) {
          const name = ledger.name(answer.lane);
          counters.tell({
            type: "problem",
            topic: name?.topic ?? "",
            partition: name?.partition ?? -1,
            firstOffset: answer.firstOffset,
            lastOffset: answer.lastOffset,
            kind: problemKind(answer.result),
            detail: answer.detail,
          });
        }
        ledger.settled(response.value);
        break;
      case "drain": {
        const { deadline } = response.value;
        this.stops = response.value.reason === DrainReason.GATEWAY_STOPS;
        this.draining = true;
        const left = deadline ? milliseconds(deadline) : 0;
        counters.tell({ type: "draining", reason: reason(response.value), deadline: left });
        ledger.drain();
        break;
      }
      case "laneEvent": {
        const { topic, partition, kind, detail } = response.value;
        const what = LaneEventKind[kind] ?? "";
        counters.tell({ type: "lane", topic, partition, kind: what, detail });
        break;
      }
      default:
      // A ping, or a kind that this version does not know.
    }
    return undefined;
  }

  /** Whether there is something to send. */
  readiness(): Readiness {
    return this.#core.ledger.readiness(this.number);
  }

  /** What is to be sent now; nothing if the stream is over. */
  outgoing(): Outgoing[] {
    const readiness = this.readiness();
    if (readiness === "empty" || readiness === "ended") return [];
    const { ledger } = this.#core;
    const messages = [...this.#messages.build(ledger.take())];
    for (const { request, watchers } of messages) {
      if (request.request?.$case === "settle" && watchers.length > 0) {
        ledger.waiting(request.request.value.sequence, watchers);
      }
    }
    return messages;
  }

  /** It was handed to the transport. */
  sent(outgoing: Outgoing): void {
    tellSent(outgoing, this.#core.ledger, this.#core.counters);
  }

  #batch({ records, ...wire }: WireBatch): Batch | undefined {
    if (records.length === 0) return undefined;
    this.useful = true;
    const { counters, ledger } = this.#core;
    const batch = new Batch(ledger, this.number, records, wire);
    ledger.handed(batch.runs, batch.name);
    counters.stats.records += records.length;
    counters.stats.batches += 1;
    counters.tell({ type: "received", batch });
    return batch;
  }
}

/** A subscriber over all its streams. */
export class Core {
  readonly counters: Counters;
  readonly ledger: Ledger;
  readonly gateways: Gateways;
  readonly backoff: Backoff;
  session = "";
  subscriberId: string;
  /** What the next stream shows to go on after the latest; empty: it cannot. */
  #token = "";

  constructor(
    addresses: Addresses,
    readonly subscription: string,
    readonly options: Options,
    observer: Observer | undefined,
    wake: () => void,
  ) {
    this.gateways = new Gateways(addresses, options.tls);
    this.backoff = new Backoff(Math.random, this.gateways.size);
    this.counters = new Counters(observer);
    const isDurable = options.confirm === "durable";
    this.ledger = new Ledger(this.counters, options.flushRecords, wake, isDurable);
    this.subscriberId = options.subscriberId;
  }

  /** The first message of the next stream: anew, or where the last one broke. */
  opening(): SubscribeRequest {
    const value = opening(this.options, this.subscription);
    value.takeover = this.options.takeover && this.session === "";
    if (this.#token) {
      value.subscriberId = this.subscriberId;
      value.resume = { token: this.#token, held: this.ledger.manifest() };
    }
    return { request: { $case: "open", value } };
  }

  /** Takes the first message of a stream. */
  opened({ response }: SubscribeResponse, now: number): OpenStream {
    if (response?.$case !== "opened") {
      throw new ProtocolError("the first message is not Opened");
    }
    const opened = response.value;
    this.session = opened.session;
    this.subscriberId = opened.subscriberId;
    this.#token = opened.resumeToken;
    this.gateways.opened();
    const stream = new OpenStream(this, opened, now);
    this.counters.stats.streams += 1;
    this.counters.tell({
      type: "opened",
      session: opened.session,
      subscriberId: opened.subscriberId,
      resumed: opened.resumed.filter(({ result }) => result === ResumeResult.KEPT).length,
      ackDeadline: stream.ackDeadline,
    });
    return stream;
  }

  /** How a stream ended that there is no more to hear of. `closing`: it was wished for. */
  how(
    stream: OpenStream | undefined,
    error: GatewayError | undefined,
    closing: boolean,
  ): [How, GatewayError | undefined] {
    if (error && !stream) error = explained(error, this.gateways.target);
    if (error) error.address = this.gateways.address;
    // Before anything was open there is nobody to say goodbye to.
    if (closing) return ["closed", stream && error];
    if (error) return ["failed", error];
    if (stream?.draining) return ["drained", undefined];
    if (stream && this.options.untilDrained) return ["closed", undefined];
    const ended = new StreamEnded();
    ended.address = this.gateways.address;
    return ["failed", ended];
  }

  /** A stream is over, or there was none. Says what follows. */
  ended(
    stream: OpenStream | undefined,
    [how, error]: readonly [How, GatewayError | undefined],
    now: number,
  ): Next {
    const broken = how === "failed" && error?.retryable === true && this.#token !== "";
    if (stream) {
      if (!broken) this.#token = "";
      this.ledger.end(broken);
    }
    if (how === "closed" || (error && !this.#goesOn(error))) {
      this.ledger.end(false);
      return { end: error };
    }
    if (how === "drained" || !error) {
      // An old connection is followed by a new one to the same gateway.
      if (stream?.stops) this.gateways.leave();
      return { delay: this.backoff.afterSuccess() };
    }
    // What is in hand is known only where it came from: there first.
    if (error.retryable && !(broken && stream)) this.gateways.leave();
    const useful = stream !== undefined && (stream.useful || now - stream.begun > MOST);
    const { retries } = this.options;
    if (!useful && retries !== undefined && this.backoff.failures >= retries) {
      this.ledger.end(false);
      return { end: error };
    }
    const delay = this.backoff.afterFailure(useful, error.retryAfter);
    this.counters.tell({ type: "disconnected", error, retryIn: delay });
    return { delay };
  }

  /** Whether trying again can help, here or at another address. */
  #goesOn(error: GatewayError): boolean {
    return error.retryable || (error.reason !== SUPERSEDED && this.gateways.refused());
  }
}

/** Why the gateway asks for the end; empty if it does not say. */
function reason({ reason }: Drain): string {
  return reason === DrainReason.UNSPECIFIED ? "" : (DrainReason[reason] ?? "");
}
