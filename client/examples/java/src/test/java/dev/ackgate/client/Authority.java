package dev.ackgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.ServerCredentials;
import io.grpc.TlsServerCredentials;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Signs certificates for one test, with the command {@code openssl}. */
final class Authority {
  private static final List<String> KEY = List.of("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes");

  private final Path folder;

  Authority(Path folder) throws Exception {
    this.folder = Files.createDirectories(folder);
    openssl(KEY, "req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-days", "1", "-subj", "/CN=authority");
  }

  Path pem() {
    return folder.resolve("ca.pem");
  }

  /** How a gateway {@code gateway.test} serves; clients: only those with a certificate. */
  ServerCredentials server(boolean clients) throws Exception {
    openssl(KEY, "req", "-keyout", "g.key", "-out", "g.csr", "-subj", "/CN=gateway");
    Files.writeString(folder.resolve("g.ext"), "subjectAltName=DNS:gateway.test\n");
    openssl(
        List.of("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "g.ext"),
        "x509", "-req", "-days", "1", "-in", "g.csr", "-out", "g.pem");
    var builder =
        TlsServerCredentials.newBuilder().keyManager(folder.resolve("g.pem").toFile(), folder.resolve("g.key").toFile());
    if (clients) {
      builder.trustManager(pem().toFile()).clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    }
    return builder.build();
  }

  private void openssl(List<String> more, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of("openssl"));
    Collections.addAll(command, arguments);
    command.addAll(more);
    Process process =
        new ProcessBuilder(command)
            .directory(folder.toFile())
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    assertTrue(process.waitFor(60, TimeUnit.SECONDS), "openssl does not end");
    assertEquals(0, process.exitValue(), () -> String.join(" ", command));
  }
}
