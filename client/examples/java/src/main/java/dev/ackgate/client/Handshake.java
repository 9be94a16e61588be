package dev.ackgate.client;

import io.grpc.Status;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Reads from the library's words why TLS did not come about, and says what to do. gRPC reports every
 * broken connection as UNAVAILABLE, which asks to be tried again; a certificate that is not trusted
 * would not be trusted the next time either.
 */
final class Handshake {
  private record Lasting(Pattern words, String advice) {
    Lasting(String words, String advice) {
      this(Pattern.compile(words, Pattern.CASE_INSENSITIVE), advice);
    }
  }

  private static final String CLIENT = "give Tls.withIdentity a certificate and its key (--tls-cert, --tls-key)";

  private static final List<Lasting> LASTING =
      List.of(
          new Lasting(
              "no subject alternative|no name matching",
              "the gateway's certificate is not for this name: use one that it has, in the address or as the"
                  + " server name (--tls-server-name)"),
          new Lasting(
              "CertificateExpired|CertificateNotYetValid|NotAfter:|NotBefore:|validity check failed",
              "the gateway's certificate is out of its time: the gateway needs another one"),
          new Lasting(
              "PKIX path|valid certification path|unable to verify",
              "the gateway's certificate is of no authority that is trusted here: name the authority that"
                  + " signed it (--tls-ca)"),
          new Lasting(
              "not an SSL/TLS record",
              "what listens there does not speak TLS: use http:// and no TLS options, or its TLS port"),
          new Lasting("ALERT_CERTIFICATE_REQUIRED", "the gateway wants a certificate of this side: " + CLIENT),
          new Lasting(
              "ALERT_(BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(REVOKED|EXPIRED|UNKNOWN)|UNKNOWN_CA"
                  + "|ACCESS_DENIED)",
              "the gateway does not take this side's certificate: " + CLIENT + " that it trusts"));

  private static final Set<Status.Code> BROKEN =
      Set.of(Status.Code.UNAVAILABLE, Status.Code.UNKNOWN, Status.Code.INTERNAL, Status.Code.CANCELLED);

  /** What a connection ends with before the first message, whatever there is at the other end. */
  private static final Pattern CUT =
      Pattern.compile(
          "first received frame was not settings|network closed|connection reset|broken pipe|end-of-stream|"
              + "connection closed",
          Pattern.CASE_INSENSITIVE);

  private Handshake() {}

  /**
   * What a call that was never answered failed with, in words that help: a {@link TlsException} if
   * trying again would not help; else the error itself, with a hint where plain text may have met TLS.
   */
  static AckgateException explained(AckgateException error, Connection to) {
    // With a reason the gateway itself has spoken.
    if (!error.reason().isEmpty() || !BROKEN.contains(error.code())) {
      return error;
    }
    String said = String.valueOf(error.getMessage());
    if (to.isSecure()) {
      for (Lasting lasting : LASTING) {
        if (lasting.words.matcher(said).find()) {
          return new TlsException("no TLS with " + to.authority() + ": " + lasting.advice + " (" + said + ")", error);
        }
      }
    }
    if (!CUT.matcher(said).find()) {
      return error;
    }
    String hint = "the gateway may not take this side's certificate; its log says so";
    if (!to.isSecure()) {
      hint = "if the gateway speaks TLS, the address begins with https://";
    } else if (!to.hasCertificate()) {
      hint = "if the gateway wants a certificate of this side, " + CLIENT;
    }
    return new AckgateException(error.code(), "", said + " (" + hint + ")", error.retryAfter(), error);
  }
}
