/** The command line that the programs share: where the gateway is, and how it is reached. */

import { readFileSync } from "node:fs";
import { type ParseArgsConfig, parseArgs } from "node:util";

import { OptionError } from "./errors.js";
import { type Options, tlsFromFiles } from "./options.js";

/** What was given. */
export interface Arguments {
  /** Tried in turn. */
  readonly address: readonly string[];
  readonly subscription: string;
  readonly concurrency: number;
  readonly batches: boolean;
  readonly options: Partial<Options>;
}

const OPTIONS = {
  address: { type: "string", default: "127.0.0.1:7654" },
  subscription: { type: "string", default: "orders" },
  "subscriber-id": { type: "string", default: "" },
  credit: { type: "string", default: "64" },
  concurrency: { type: "string", default: "8" },
  "max-message-bytes": { type: "string", default: String(4 << 20) },
  "ack-deadline": { type: "string" },
  "until-drained": { type: "boolean", default: false },
  batches: { type: "boolean", default: false },
  "tls-ca": { type: "string" },
  "tls-cert": { type: "string" },
  "tls-key": { type: "string" },
  "tls-server-name": { type: "string" },
  "token-file": { type: "string" },
} as const satisfies ParseArgsConfig["options"];

/** One line of help. */
export const USAGE = `options: ${Object.keys(OPTIONS).map((name) => `--${name}`).join(" ")}`;

/** Reads the command line. Throws what is wrong with it. */
export function read(args: string[]): Arguments {
  const { values } = parseArgs({ args, options: OPTIONS, strict: true });
  const tls = {
    ca: values["tls-ca"],
    certificate: values["tls-cert"],
    key: values["tls-key"],
    serverName: values["tls-server-name"],
  };
  const tokenFile = values["token-file"];
  const deadline = values["ack-deadline"];
  return {
    address: values.address.split(","),
    subscription: values.subscription,
    concurrency: whole("concurrency", values.concurrency),
    batches: values.batches,
    options: {
      subscriberId: values["subscriber-id"],
      credit: whole("credit", values.credit),
      maxMessageBytes: whole("max-message-bytes", values["max-message-bytes"]),
      ackDeadline: deadline === undefined ? undefined : whole("ack-deadline", deadline),
      untilDrained: values["until-drained"],
      tls: Object.values(tls).some((value) => value !== undefined) ? tlsFromFiles(tls) : undefined,
      token: tokenFile === undefined ? "" : readFileSync(tokenFile, "utf8").trim(),
    },
  };
}

function whole(option: string, text: string): number {
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    throw new OptionError(option, `"${text}" is not a whole number above 0`);
  }
  return Number(text);
}
