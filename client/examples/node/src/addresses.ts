/** Where gateways are: how an address is read, and which one is tried next. */

import { OptionError } from "./errors.js";
import type { Tls } from "./options.js";

/** Most addresses of a subscriber. */
const MOST_ADDRESSES = 64;

/** One address or several, each `https://HOST:PORT`, `http://HOST:PORT` or `HOST:PORT`. */
export type Addresses = string | readonly string[];

/** Where the gateway is, and how to know it. */
export interface Target {
  /** `HOST:PORT`. */
  readonly authority: string;
  readonly tls: Tls | undefined;
}

/**
 * Reads an address. `https://` uses TLS, with the system's roots unless there are others; the
 * others do only if there is a `tls`.
 */
export function target(address: string, tls: Tls | undefined): Target {
  const [, scheme = "http", rest = ""] = /^(?:([^:/]*):\/\/)?(.*?)\/*$/.exec(address) ?? [];
  if (scheme !== "http" && scheme !== "https") {
    throw new OptionError("address", `${scheme}:// is neither http:// nor https://`);
  }
  if (rest === "" || /[/@\s]/.test(rest)) {
    throw new OptionError("address", `"${address}" is not HOST:PORT`);
  }
  const port = /:\d+$/.test(rest) ? "" : scheme === "https" ? ":443" : ":7654";
  return { authority: rest + port, tls: tls ?? (scheme === "https" ? {} : undefined) };
}

/** The addresses in the order to try them, each of them checked. */
export function listed(addresses: Addresses, tls: Tls | undefined): string[] {
  const every = typeof addresses === "string" ? [addresses] : [...addresses];
  if (every.length < 1 || every.length > MOST_ADDRESSES) {
    throw new OptionError("address", `1 to ${MOST_ADDRESSES} addresses, not ${every.length}`);
  }
  for (const address of every) target(address, tls);
  return every;
}

/** The addresses of a subscriber, tried in turn: it has a stream to one of them at a time. */
export class Gateways {
  readonly #every: string[];
  #at = 0;
  #refused = 0;

  constructor(
    addresses: Addresses,
    readonly tls: Tls | undefined,
  ) {
    this.#every = listed(addresses, tls);
  }

  get size(): number {
    return this.#every.length;
  }

  /** The one of the moment. */
  get address(): string {
    return this.#every[this.#at] as string;
  }

  /** The same, read. */
  get target(): Target {
    return target(this.address, this.tls);
  }

  /** A stream is open here. */
  opened(): void {
    this.#refused = 0;
  }

  /** It does not serve now: the next one is tried. */
  leave(): void {
    this.#refused = 0;
    this.#next();
  }

  /** Trying again here would not help. Returns whether it may help elsewhere. */
  refused(): boolean {
    this.#refused += 1;
    this.#next();
    return this.#refused < this.#every.length;
  }

  #next(): void {
    this.#at = (this.#at + 1) % this.#every.length;
  }
}
