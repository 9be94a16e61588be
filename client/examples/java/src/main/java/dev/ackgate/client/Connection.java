package dev.ackgate.client;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * How to reach a gateway. Each stream gets a connection of its own, so that one that broke never
 * waits for the backoff of a shared one.
 */
final class Connection {
  private static final int DEFAULT_PORT = 7654;
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final String address;
  private final String target;
  private final ChannelCredentials credentials;
  private final String serverName;
  private final Path tokenFile;
  private final boolean isSecure;
  private final boolean hasCertificate;

  private Connection(
      String address, String target, ChannelCredentials credentials, Tls tls, boolean isSecure, Path tokenFile) {
    this.address = address;
    this.isSecure = isSecure;
    this.hasCertificate = tls.certificateFile() != null;
    this.target = target;
    this.credentials = credentials;
    this.serverName = isSecure ? tls.serverName() : null;
    this.tokenFile = tokenFile;
  }

  /** Checks all of it; nothing is connected yet. */
  static Connection of(String address, Tls tls, Path tokenFile) {
    boolean hasScheme = address.contains("://");
    URI uri;
    try {
      uri = new URI(hasScheme ? address : "http://" + address);
    } catch (URISyntaxException e) {
      throw AckgateException.invalid("address: " + e.getMessage());
    }
    boolean more = uri.getUserInfo() != null || uri.getQuery() != null || !uri.getPath().replace("/", "").isEmpty();
    if (uri.getHost() == null || more) {
      throw AckgateException.invalid("address: HOST:PORT, http://HOST:PORT or https://HOST:PORT, not more");
    }
    boolean secure =
        switch (uri.getScheme()) {
          case "https" -> true;
          case "http" -> tls.isAsked();
          default -> throw AckgateException.invalid("address: neither http nor https: " + uri.getScheme());
        };
    int port = uri.getPort() < 0 ? DEFAULT_PORT : uri.getPort();
    if (tokenFile != null) {
      token(tokenFile);
    }
    ChannelCredentials credentials = secure ? credentials(tls) : InsecureChannelCredentials.create();
    return new Connection(address, "dns:///" + uri.getHost() + ":" + port, credentials, tls, secure, tokenFile);
  }

  /** Where the gateway is, as it was given. */
  String address() {
    return address;
  }

  /** {@code HOST:PORT}. */
  String authority() {
    return target.substring("dns:///".length());
  }

  boolean isSecure() {
    return isSecure;
  }

  boolean hasCertificate() {
    return hasCertificate;
  }

  private static ChannelCredentials credentials(Tls tls) {
    if ((tls.certificateFile() == null) != (tls.keyFile() == null)) {
      throw AckgateException.invalid("TLS certificate and key: both or neither");
    }
    try {
      TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
      if (tls.caFile() != null) {
        builder.trustManager(tls.caFile().toFile());
      }
      if (tls.certificateFile() != null) {
        builder.keyManager(tls.certificateFile().toFile(), tls.keyFile().toFile());
      }
      return builder.build();
    } catch (IOException e) {
      throw AckgateException.invalid("TLS: " + e);
    }
  }

  private static String token(Path file) {
    try {
      String token = Files.readString(file).strip();
      if (token.isEmpty()) {
        throw AckgateException.invalid("token file: " + file + " is empty");
      }
      return token;
    } catch (IOException e) {
      throw AckgateException.invalid("token file: " + e);
    }
  }

  /** Makes a channel that accepts messages of so many bytes. The caller shuts it down. */
  ManagedChannel connect(int maxMessage) {
    ManagedChannelBuilder<?> builder;
    try {
      builder = Grpc.newChannelBuilder(target, credentials);
    } catch (IllegalArgumentException e) {
      // As when a certificate or a key cannot be read.
      throw AckgateException.invalid("TLS: " + e.getMessage());
    }
    builder
        .userAgent("ackgate-java")
        .maxInboundMessageSize(maxMessage)
        .disableRetry()
        .keepAliveTime(20, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true);
    if (serverName != null) {
      builder.overrideAuthority(serverName);
    }
    if (tokenFile != null) {
      Metadata headers = new Metadata();
      try {
        headers.put(AUTHORIZATION, "Bearer " + token(tokenFile));
      } catch (AckgateException e) {
        // It was there at first: as when it is being replaced.
        throw new AckgateException(Status.Code.UNAVAILABLE, "", e.getMessage(), Duration.ZERO, e);
      }
      builder.intercept(MetadataUtils.newAttachHeadersInterceptor(headers));
    }
    return builder.build();
  }
}
