/** A gateway in this process that does as the test says, over a real socket. */

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { Metadata, Server, ServerCredentials, type ServerDuplexStream, status } from "@grpc/grpc-js";

import {
  Opened,
  type Settle,
  SubscribeRequest,
  SubscribeResponse,
  type VerdictResult,
} from "../src/gen/ackgate/v1/gateway.js";
import { Record } from "../src/gen/ackgate/v1/record.js";
import { ErrorInfo, RetryInfo, Status } from "../src/gen/rpc.js";
import { duration } from "../src/time.js";

/** How long a test waits for anything, in ms. */
const DEADLINE = 20_000;

type Requests = NonNullable<SubscribeRequest["request"]>;
type Value<K extends Requests["$case"]> = Extract<Requests, { $case: K }>["value"];

/** Waits until it holds. */
export async function eventually(holds: () => unknown): Promise<void> {
  const end = Date.now() + DEADLINE;
  while (!holds()) {
    assert.ok(Date.now() < end, `it did not come to hold: ${holds}`);
    await sleep(5);
  }
}

/** Looks for a while whether it goes on to hold. */
export async function throughout(holds: () => unknown): Promise<void> {
  const end = Date.now() + 200;
  while (Date.now() < end) {
    assert.ok(holds());
    await sleep(5);
  }
}

/** One stream, from the gateway's side. */
export class Stream {
  readonly #requests: Requests[] = [];
  #over = false;

  constructor(readonly call: ServerDuplexStream<SubscribeRequest, Buffer>) {
    call.on("data", ({ request }: SubscribeRequest) => request && this.#requests.push(request));
    call.on("end", () => (this.#over = true));
    call.on("error", () => (this.#over = true));
    call.on("cancelled", () => (this.#over = true));
  }

  /** The next request of this kind; others are passed over. */
  async next<K extends Requests["$case"]>(kind: K): Promise<Value<K>> {
    const end = Date.now() + DEADLINE;
    for (;;) {
      assert.ok(Date.now() < end, `no ${kind} came`);
      await eventually(() => this.#requests.length > 0 || this.#over);
      const request = this.#requests.shift();
      assert.ok(request, `the stream ended without ${kind}`);
      if (request.$case === kind) return request.value as Value<K>;
    }
  }

  /** Takes `Open` and answers it; times in ms. */
  async opened(
    fields: Partial<Opened> & { ackDeadline?: number; ping?: number; beat?: number } = {},
  ): Promise<Value<"open">> {
    const request = await this.next("open");
    const { ackDeadline = 30_000, ping = 30_000, beat, ...rest } = fields;
    const value = Opened.fromPartial({ session: "s", subscriberId: "me", protocolVersion: 1, ...rest });
    value.settings = Opened.fromPartial({
      settings: {
        ackDeadline: duration(ackDeadline),
        pingInterval: duration(ping),
        ...(beat === undefined ? {} : { leaseBeat: duration(beat) }),
      },
    }).settings;
    this.send({ $case: "opened", value });
    return request;
  }

  /** Sends records of `orders/3`; `again`: their attempt and delivery number. */
  batch(offsets: number[], { lane = 7n, again }: { lane?: bigint; again?: number } = {}): void {
    const records = offsets.map((at) =>
      Record.fromPartial({ offset: BigInt(at), value: Buffer.alloc(0) }),
    );
    const [firstOffset, lastOffset] = [BigInt(offsets[0] ?? 0), BigInt(offsets.at(-1) ?? 0)];
    const redeliveries =
      again === undefined ? [] : [{ firstOffset, lastOffset, attempt: again, delivery: again }];
    const value = { lane, topic: "orders", partition: 3, epoch: 1n, records, redeliveries, traces: [] };
    this.send({ $case: "batch", value });
  }

  /** Answers a message; `problems`: offsets and what became of their verdicts. */
  settled(sequence: bigint, problems: [number, VerdictResult][] = [], more = false): void {
    const answers = problems.map(([offset, result]) => {
      const at = BigInt(offset);
      return { lane: 7n, firstOffset: at, lastOffset: at, result, detail: "" };
    });
    this.send({ $case: "settled", value: { sequence, answers, more } });
  }

  /** The kinds of the requests that have come and were not taken. */
  get waiting(): string[] {
    return this.#requests.map(({ $case }) => $case);
  }

  send(response: NonNullable<SubscribeResponse["response"]>): void {
    this.raw(Buffer.from(SubscribeResponse.encode({ response }).finish()));
  }

  /** Sends bytes as they are. */
  raw(bytes: Buffer): void {
    this.call.write(bytes);
  }

  /** Ends the stream; with a reason, the status has details. */
  end(code: status = status.OK, reason = ""): void {
    if (code === status.OK) return void this.call.end();
    const metadata = new Metadata();
    if (reason) {
      const of = (typeUrl: string, value: Uint8Array): Status["details"][number] => ({
        typeUrl: `type.googleapis.com/google.rpc.${typeUrl}`,
        value: Buffer.from(value),
      });
      const details = [
        of("ErrorInfo", ErrorInfo.encode({ reason, domain: "ackgate" }).finish()),
        of("RetryInfo", RetryInfo.encode({ retryDelay: duration(300) }).finish()),
      ];
      const encoded = Status.encode({ code, message: "as the test says", details }).finish();
      metadata.set("grpc-status-details-bin", Buffer.from(encoded));
    }
    this.call.emit("error", { code, details: "as the test says", metadata });
  }

  /** Verdicts as [offset, outcome, code, lane], until so many records have one. */
  async verdicts(records: number): Promise<[number, number, string, bigint][]> {
    const seen: [number, number, string, bigint][] = [];
    while (seen.length < records) seen.push(...spread(await this.next("settle")));
    return seen.sort(([a], [b]) => a - b);
  }
}

function spread({ verdicts }: Settle): [number, number, string, bigint][] {
  return verdicts.flatMap(({ firstOffset, lastOffset = firstOffset, outcome, code, lane }) =>
    Array.from({ length: Number(lastOffset - firstOffset) + 1 }, (_, index) => {
      const one: [number, number, string, bigint] = [Number(firstOffset) + index, outcome, code, lane];
      return one;
    }),
  );
}

/** Takes streams, one after the other. */
export class Gateway {
  readonly #streams: Stream[] = [];
  readonly #server = new Server();
  address = "";

  async start(credentials = ServerCredentials.createInsecure()): Promise<void> {
    const subscribe = {
      path: "/ackgate.v1.GatewayService/Subscribe",
      requestStream: true,
      responseStream: true,
      requestDeserialize: (raw: Buffer) => SubscribeRequest.decode(raw),
      requestSerialize: (request: SubscribeRequest) =>
        Buffer.from(SubscribeRequest.encode(request).finish()),
      responseSerialize: (raw: Buffer) => raw,
      responseDeserialize: (raw: Buffer) => raw,
    } as const;
    this.#server.addService({ subscribe }, {
      subscribe: (call: ServerDuplexStream<SubscribeRequest, Buffer>) =>
        void this.#streams.push(new Stream(call)),
    });
    const port = await new Promise<number>((resolve, reject) =>
      this.#server.bindAsync("127.0.0.1:0", credentials, (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    this.address = `127.0.0.1:${port}`;
  }

  /** The next stream. */
  async next(): Promise<Stream> {
    await eventually(() => this.#streams.length > 0);
    return this.#streams.shift() as Stream;
  }

  stop(): void {
    this.#server.forceShutdown();
  }
}
