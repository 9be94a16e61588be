/** From a target and options to what the library needs to connect. */

import { existsSync, readFileSync } from "node:fs";

import { type ChannelOptions, ChannelCredentials, Metadata, credentials } from "@grpc/grpc-js";

import type { Target } from "./addresses.js";
import type { Options } from "./options.js";

/** What the transport accepts beyond `maxMessageBytes`. */
const SLACK = 64 * 1_024;

/** Where systems keep the roots that they trust. */
const ROOTS = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
];

/** The arguments of a client: each stream has a connection of its own. */
export function channel(
  { authority, tls }: Target,
  options: Options,
): [string, ChannelCredentials, ChannelOptions] {
  const args: ChannelOptions = {
    // The only backoff is ours.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_retries": 0,
    "grpc.max_receive_message_length": options.maxMessageBytes + SLACK,
    "grpc.keepalive_time_ms": options.keepaliveInterval,
    "grpc.keepalive_timeout_ms": options.keepaliveTimeout,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc-node.flow_control_window": options.streamWindow,
  };
  if (!tls) return [authority, credentials.createInsecure(), args];
  if (tls.serverName) {
    args["grpc.ssl_target_name_override"] = tls.serverName;
    args["grpc.default_authority"] = tls.serverName;
  }
  const roots = tls.ca ?? systemRoots();
  const secure = credentials.createSsl(roots, tls.key ?? null, tls.certificate ?? null);
  return [authority, secure, args];
}

/** What every call carries. */
export function metadata(options: Options): Metadata {
  const result = new Metadata();
  if (options.token) result.set("authorization", `Bearer ${options.token}`);
  return result;
}

/** The system's roots; null, which means those of the runtime, if there are none. */
function systemRoots(): Buffer | null {
  const known = [process.env["SSL_CERT_FILE"], ...ROOTS];
  const path = known.find((file) => file !== undefined && existsSync(file));
  return path === undefined ? null : readFileSync(path);
}
