/** Subscribers and gateways of a test, all of which end with it. */

import { afterEach, beforeEach } from "node:test";

import type { ServerCredentials } from "@grpc/grpc-js";

import { type Addresses, type Event, type Handler, type Options, type Stats, Subscriber } from "../src/index.js";
import { Gateway } from "./gateway.js";

/** A subscriber that runs a handler. */
export interface Running {
  readonly subscriber: Subscriber;
  readonly ended: Promise<Stats>;
  readonly events: Event[];
}

let gateways: Gateway[] = [];
let runs: Running[] = [];

beforeEach(() => {
  gateways = [];
  runs = [];
});

afterEach(async () => {
  for (const { subscriber, ended } of runs) {
    subscriber.stop(0);
    await ended.catch(() => undefined);
  }
  for (const gateway of gateways) gateway.stop();
});

/** Starts a gateway. */
export async function serve(credentials?: ServerCredentials): Promise<Gateway> {
  const gateway = new Gateway();
  gateways.push(gateway);
  await gateway.start(credentials);
  return gateway;
}

/** Runs a handler on the gateway, or on several in turn. */
export function run(
  address: Addresses,
  handler: Handler,
  options: Partial<Options> = {},
  concurrency = 4,
): Running {
  const events: Event[] = [];
  const all = { closeTimeout: 500, ...options };
  const subscriber = new Subscriber(address, "orders", all, (event) => events.push(event));
  const ended = subscriber.run(handler, { concurrency, grace: 5_000 });
  ended.catch(() => undefined);
  const running = { subscriber, ended, events };
  runs.push(running);
  return running;
}

/** The tries that failed and were followed by another. */
export function disconnected({ events }: Running): Extract<Event, { type: "disconnected" }>[] {
  return events.filter((event) => event.type === "disconnected");
}
