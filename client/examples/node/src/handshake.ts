/**
 * Reads from the library's words why TLS did not come about, and says what to do. gRPC reports
 * every broken connection as UNAVAILABLE, which asks to be tried again; a certificate that is
 * not trusted would not be trusted the next time either.
 */

import type { Target } from "./addresses.js";
import { GatewayError, TlsError } from "./errors.js";

const CLIENT = "give `tls` a certificate and its key (--tls-cert, --tls-key)";

const LASTING: readonly (readonly [words: RegExp, advice: string])[] = [
  [
    /does not match certificate's altnames|ALTNAME_INVALID/i,
    "the gateway's certificate is not for this name: use one that it has, in the address or as the " +
      "server name (--tls-server-name)",
  ],
  [
    /certificate (has expired|is not yet valid)/i,
    "the gateway's certificate is out of its time: the gateway needs another one",
  ],
  [
    /unable to (verify the first|get (local )?issuer) certificate|self.signed certificate/i,
    "the gateway's certificate is of no authority that is trusted here: name the authority that " +
      "signed it (--tls-ca)",
  ],
  [
    /wrong version number|http request/i,
    "what listens there does not speak TLS: use http:// and no TLS options, or its TLS port",
  ],
  [
    /alert certificate required/i,
    `the gateway wants a certificate of this side: ${CLIENT}`,
  ],
  [
    /alert (bad certificate|unsupported certificate|certificate (revoked|expired|unknown)|unknown ca|access denied)/i,
    `the gateway does not take this side's certificate: ${CLIENT} that it trusts`,
  ],
];

const BROKEN = new Set(["UNAVAILABLE", "UNKNOWN", "INTERNAL", "CANCELLED"]);

/** What a connection ends with before the first message, whatever there is at the other end. */
const CUT = /Failed to connect|Connection dropped|ECONNRESET|EPIPE|socket hang up|Protocol error/i;

/**
 * What a call that was never answered failed with, in words that help: a `TlsError` if trying
 * again would not help; else the error itself, with a hint where plain text may have met TLS.
 */
export function explained(error: GatewayError, { authority, tls }: Target): GatewayError {
  // With a reason the gateway itself has spoken.
  if (error.reason !== "" || !BROKEN.has(error.code)) return error;
  const { said } = error;
  if (tls) {
    const lasting = LASTING.find(([words]) => words.test(said));
    if (lasting) return new TlsError(`no TLS with ${authority}: ${lasting[1]} (${said})`);
  }
  if (!CUT.test(said)) return error;
  let hint = "the gateway may not take this side's certificate; its log says so";
  if (!tls) hint = "if the gateway speaks TLS, the address begins with https://";
  else if (!tls.certificate) hint = `if the gateway wants a certificate of this side, ${CLIENT}`;
  return new GatewayError(error.code, `${said} (${hint})`, "", error.retryAfter);
}
