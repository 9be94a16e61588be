"""Reads from the library's words why TLS did not come about, and says what to do.

gRPC reports every broken connection as UNAVAILABLE, which asks to be tried again; a
certificate that is not trusted would not be trusted the next time either.
"""

from __future__ import annotations

import re

from ackgate.addresses import Target
from ackgate.errors import GatewayError, TlsError

_CLIENT = "give Options(tls=...) a certificate and its key (--tls-cert, --tls-key)"

_LASTING: tuple[tuple[str, str], ...] = (
    (
        "hostname verification check failed|no match found for server name",
        "the gateway's certificate is not for this name: use one that it has, in the address or "
        "as the server name (--tls-server-name)",
    ),
    (
        "certificate has expired|certificate is not yet valid",
        "the gateway's certificate is out of its time: the gateway needs another one",
    ),
    (
        "certificate_verify_failed|unable to get (local )?issuer|self.signed certificate",
        "the gateway's certificate is of no authority that is trusted here: name the authority "
        "that signed it (--tls-ca)",
    ),
    (
        "wrong_version_number|invalid certificate verification context|http_request",
        "what listens there does not speak TLS: use http:// and no TLS options, or its TLS port",
    ),
    ("alert_certificate_required", f"the gateway wants a certificate of this side: {_CLIENT}"),
    (
        "alert_(bad_certificate|unsupported_certificate|certificate_(revoked|expired|unknown)"
        "|unknown_ca|access_denied)",
        f"the gateway does not take this side's certificate: {_CLIENT} that it trusts",
    ),
)

# What a connection ends with before the first message, whatever there is at the other end.
_CUT = re.compile(
    "socket closed|connection reset|end of (tcp )?stream|broken pipe|unwrap failed", re.IGNORECASE
)


def explained(error: GatewayError, to: Target) -> GatewayError:
    """What a call that was never answered failed with, in words that help.

    A `TlsError` if trying again would not help; else the error itself, with a hint where
    plain text may have met TLS.
    """
    if error.reason or error.code not in {"UNAVAILABLE", "UNKNOWN", "INTERNAL", "CANCELLED"}:
        # The gateway itself has spoken.
        return error
    said = error.message
    if to.tls is not None:
        for words, advice in _LASTING:
            if re.search(words, said, re.IGNORECASE):
                return TlsError(f"no TLS with {to.authority}: {advice} ({said})")
    if not _CUT.search(said):
        return error
    if to.tls is None:
        hint = "if the gateway speaks TLS, the address begins with https://"
    elif to.tls.certificate is None:
        hint = f"if the gateway wants a certificate of this side, {_CLIENT}"
    else:
        hint = "the gateway may not take this side's certificate; its log says so"
    return GatewayError(error.code, f"{said} ({hint})", retry_after=error.retry_after)
