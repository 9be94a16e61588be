/**
 * One call to the gateway: what it brings, and what is written to it.
 *
 * One timer, while verdicts are gathered; none is left after `close`.
 */

import type { ClientDuplexStream } from "@grpc/grpc-js";

import { channel, metadata } from "./channel.js";
import type { Core, OpenStream } from "./core.js";
import { GatewayError } from "./errors.js";
import {
  GatewayServiceClient,
  type SubscribeRequest,
  type SubscribeResponse,
} from "./gen/ackgate/v1/gateway.js";
import { now } from "./time.js";
import { Watch } from "./watch.js";

/** Whoever has the connection, and what it hears of it. */
export interface Owner {
  /** A message. A `GatewayError` that it throws ends the call. */
  receive(message: SubscribeResponse): void;
  /** There may be something to send, and room for it. */
  wake(): void;
  /** The goodbye was said: the end of the stream is to follow. */
  saidGoodbye(): void;
}

/** Reads as it is told, and writes what its stream has gathered as the transport takes it. */
export class Connection {
  readonly watch: Watch;
  /** Once the gateway has opened it. */
  stream: OpenStream | undefined;
  /** Why it was ended from this side. */
  failure: GatewayError | undefined;
  readonly #core: Core;
  readonly #owner: Owner;
  readonly #client: GatewayServiceClient;
  readonly #call: ClientDuplexStream<SubscribeRequest, SubscribeResponse>;
  /** The transport has enough for now. */
  #blocked = false;
  /** Nothing is sent any more. */
  #said = false;
  #gathering: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;

  constructor(core: Core, owner: Owner) {
    this.#core = core;
    this.#owner = owner;
    this.#client = new GatewayServiceClient(...channel(core.gateways.target, core.options));
    this.#call = this.#client.subscribe(metadata(core.options));
    this.watch = new Watch(core.options, core.ledger, now());
  }

  /** Asks for a stream. What is returned comes with the end: the error, if it is one. */
  open(): Promise<GatewayError | undefined> {
    const call = this.#call;
    const ended = new Promise<GatewayError | undefined>((resolve) => {
      call.on("data", (message: SubscribeResponse) => {
        try {
          this.#owner.receive(message);
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error;
          this.fail(error);
        }
      });
      call.on("drain", () => {
        this.#blocked = false;
        this.#owner.wake();
      });
      call.on("error", (error: Parameters<typeof GatewayError.of>[0]) =>
        resolve(GatewayError.of(error)),
      );
      // With status OK, and after everything was read.
      call.on("end", () => resolve(undefined));
    });
    call.write(this.#core.opening());
    return ended;
  }

  /** Reads no more for now: HTTP/2 then holds the gateway back. */
  pause(): void {
    this.#call.pause();
  }

  /** Reads on. */
  resume(): void {
    this.#call.resume();
  }

  /** Ends the call from this side. */
  fail(error: GatewayError | undefined): void {
    if (error) this.failure ??= error;
    this.#call.cancel();
  }

  /** There may be something to send. */
  wake(): void {
    if (this.#said || this.#blocked) return;
    const readiness = this.stream?.readiness();
    if (readiness === "now") {
      // Once all that is at hand has been said.
      this.#soon ??= setImmediate(() => this.#send());
    } else if (readiness === "soon") {
      this.#gathering ??= setTimeout(() => this.#send(), this.#core.options.flushInterval);
    }
  }

  #send(): void {
    this.#stopTimers();
    if (!this.stream || this.#said) return;
    for (const outgoing of this.stream.outgoing()) {
      this.#blocked = !this.#call.write(outgoing.request);
      this.stream.sent(outgoing);
      if (outgoing.request.request?.$case === "close") {
        this.#said = true;
        this.watch.saidGoodbye(now());
        this.#call.end();
        this.#owner.saidGoodbye();
        return;
      }
    }
    this.#owner.wake();
  }

  /** It is over: nothing is read or sent any more. */
  close(): void {
    this.#stopTimers();
    this.#call.removeAllListeners("data");
    this.#call.cancel();
    this.#client.close();
  }

  #stopTimers(): void {
    clearTimeout(this.#gathering);
    clearImmediate(this.#soon);
    this.#gathering = this.#soon = undefined;
  }
}
