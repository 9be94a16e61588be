/** Certificates made for one test, with the command `openssl`. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ServerCredentials } from "@grpc/grpc-js";

const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** Signs certificates. All files lie in a folder of its own, until `remove`. */
export class Authority {
  readonly #folder = mkdtempSync(join(tmpdir(), "ackgate-"));

  constructor() {
    const out = ["-keyout", "authority.key", "-out", "authority.pem"];
    this.#openssl("req", "-x509", ...KEY, ...out, "-days", "1", "-subj", "/CN=authority");
  }

  get pem(): Buffer {
    return this.#read("authority.pem");
  }

  /** How a gateway `gateway.test` serves; `clients`: only those with a certificate. */
  server(clients = false): ServerCredentials {
    this.#openssl("req", ...KEY, "-keyout", "g.key", "-out", "g.csr", "-subj", "/CN=gateway");
    writeFileSync(join(this.#folder, "g.ext"), "subjectAltName=DNS:gateway.test\n");
    const by = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial"];
    const files = ["-in", "g.csr", "-extfile", "g.ext", "-out", "g.pem"];
    this.#openssl("x509", "-req", "-days", "1", ...by, ...files);
    const pair = { private_key: this.#read("g.key"), cert_chain: this.#read("g.pem") };
    return ServerCredentials.createSsl(clients ? this.pem : null, [pair], clients);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #read(name: string): Buffer {
    return readFileSync(join(this.#folder, name));
  }

  #openssl(...args: string[]): void {
    execFileSync("openssl", args, { cwd: this.#folder, stdio: "pipe", timeout: 60_000 });
  }
}
