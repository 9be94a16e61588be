/** Errors: what ends a subscription, and what a handler throws to give its verdict. */

import { Metadata, type ServiceError, status } from "@grpc/grpc-js";

import { ErrorInfo, RetryInfo, Status } from "./gen/rpc.js";
import { milliseconds } from "./time.js";

/** What a request asks for is wrong or not allowed: it would be so again. */
const FINAL: ReadonlySet<string> = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
]);

/** The gateway's reason for ending a stream whose place another one took. */
export const SUPERSEDED = "SUPERSEDED";

/** An option is outside its range; nothing was sent. */
export class OptionError extends RangeError {
  override readonly name = "OptionError";

  constructor(
    readonly option: string,
    problem: string,
  ) {
    super(`option ${option}: ${problem}`);
  }
}

/** The gateway ended a call or would not begin it, or it cannot be reached. */
export class GatewayError extends Error {
  override readonly name: string = "GatewayError";
  /** Of the gateway, as it was given; empty if it is not known. */
  address = "";

  constructor(
    /** The gRPC code's name. */
    readonly code: string,
    /** In words, as the gateway has it. */
    readonly said: string,
    /** The gateway's stable reason code; empty if something in between ended the call. */
    readonly reason = "",
    /** The least time in ms before another try, if the gateway gave one. */
    readonly retryAfter?: number,
  ) {
    super(`${code}${reason ? ` (${reason})` : ""}: ${said}`);
  }

  /** Whether the same call can succeed later without anybody changing anything. */
  get retryable(): boolean {
    // Another stream of this name took its place: the two would take turns.
    return !FINAL.has(this.code) && this.reason !== SUPERSEDED;
  }

  /** Reads a failed call, with its details. */
  static of(error: Pick<ServiceError, "code" | "details"> & { metadata?: Metadata }): GatewayError {
    let reason = "";
    let retryAfter: number | undefined;
    for (const raw of error.metadata?.get("grpc-status-details-bin") ?? []) {
      for (const detail of details(raw)) {
        const type = detail.typeUrl.split("/").at(-1);
        if (type === "google.rpc.ErrorInfo") reason = ErrorInfo.decode(detail.value).reason;
        if (type === "google.rpc.RetryInfo") {
          const delay = RetryInfo.decode(detail.value).retryDelay;
          if (delay) retryAfter = milliseconds(delay);
        }
      }
    }
    const code = status[error.code] ?? "UNKNOWN";
    return new GatewayError(code, error.details, reason, retryAfter);
  }
}

/**
 * TLS did not come about, and would not if it were tried again: the gateway's certificate is of
 * no trusted authority, for another name or out of its time, the gateway did not take this
 * side's certificate or wanted one, or what listens there does not speak TLS. The message says
 * which, and what to do.
 */
export class TlsError extends GatewayError {
  override readonly name = "TlsError";

  constructor(what: string) {
    super("UNAVAILABLE", what);
  }

  /** Never: it would be so again. */
  override get retryable(): boolean {
    return false;
  }
}

/** The stream ended without a word, as when the gateway is killed. */
export class StreamEnded extends GatewayError {
  override readonly name = "StreamEnded";

  constructor() {
    super("UNAVAILABLE", "the gateway ended the stream");
  }
}

/** Nothing came for twice the gateway's ping interval. */
export class Silent extends GatewayError {
  override readonly name = "Silent";

  constructor(ms: number) {
    super("UNAVAILABLE", `no sign of life from the gateway for ${ms} ms`);
  }
}

/** The stream was not open in time. */
export class NotOpened extends GatewayError {
  override readonly name = "NotOpened";

  constructor(ms: number) {
    super("DEADLINE_EXCEEDED", `the gateway did not open the stream within ${ms} ms`);
  }
}

/** The goodbye was not answered in time: the last verdicts may not count. */
export class NotClosed extends GatewayError {
  override readonly name = "NotClosed";

  constructor(ms: number) {
    super("DEADLINE_EXCEEDED", `the gateway did not end the stream within ${ms} ms of the goodbye`);
  }
}

/** The gateway sent what the protocol does not allow. */
export class ProtocolError extends GatewayError {
  override readonly name = "ProtocolError";

  constructor(what: string) {
    super("INTERNAL", `the gateway broke the protocol: ${what}`);
  }

  /** Never: it would be so again. */
  override get retryable(): boolean {
    return false;
  }
}

/** Thrown by a handler: refuses its record for good, which becomes a dead letter now. */
export class Reject extends Error {
  override readonly name = "Reject";

  /** `code` has at most 128 bytes, `reason` 1 KiB; longer ones are cut. */
  constructor(
    readonly code: string,
    readonly reason = "",
  ) {
    super(reason ? `${code}: ${reason}` : code);
  }
}

/** Thrown by a handler: not this time. The record comes again, and an attempt is used. */
export class Fail extends Error {
  override readonly name = "Fail";
  readonly code: string;
  /** Milliseconds, at most 1 h; without it the subscription's backoff. */
  readonly retryAfter: number | undefined;

  constructor(
    readonly reason = "",
    { code = "", retryAfter }: { code?: string; retryAfter?: number } = {},
  ) {
    super(reason || code);
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Thrown by a handler: gives its record back untouched, again at once. */
export class Release extends Error {
  override readonly name = "Release";
}

function details(raw: string | Buffer): Status["details"] {
  try {
    return Buffer.isBuffer(raw) ? Status.decode(raw).details : [];
  } catch {
    // Not the gateway's: the code and the words still tell enough.
    return [];
  }
}
