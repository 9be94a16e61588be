package dev.ackgate.client;

import java.nio.file.Path;

/**
 * How a connection is secured. Null in a field: not given. A certificate's key must be PKCS #8, which
 * begins with {@code BEGIN PRIVATE KEY}.
 *
 * @param caFile certificates of authorities to trust in place of the system's, PEM
 * @param certificateFile with which to show who this is, PEM; with its key or not at all
 * @param keyFile its key, PEM
 * @param serverName the name that the gateway's certificate must have, in place of the address's
 */
public record Tls(Path caFile, Path certificateFile, Path keyFile, String serverName) {
  /** Nothing of its own: TLS only where the address says https, with the system's authorities. */
  public static final Tls DEFAULT = new Tls(null, null, null, null);

  /** Trusts the authorities in a file. */
  public static Tls trusting(Path caFile) {
    return new Tls(caFile, null, null, null);
  }

  /** Also shows who this is. */
  public Tls withIdentity(Path certificateFile, Path keyFile) {
    return new Tls(caFile, certificateFile, keyFile, serverName);
  }

  /** Expects another name than the address's. */
  public Tls withServerName(String name) {
    return new Tls(caFile, certificateFile, keyFile, name);
  }

  boolean isAsked() {
    return caFile != null || certificateFile != null || keyFile != null || serverName != null;
  }
}
