"""Certificates made for one test, with the command `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import grpc

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """Signs certificates. All files lie in one folder, as NAME.pem and NAME.key."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        _openssl(folder, "req", "-x509", *_KEY, *_out(name), "-days", "1", "-subj", f"/CN={name}")

    @property
    def pem(self) -> bytes:
        return self.read(f"{self._name}.pem")

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def signs(self, name: str, alternative: str) -> tuple[bytes, bytes]:
        """A key and its certificate for this alternative name, such as `DNS:gateway.test`."""
        request = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
        _openssl(self._folder, "req", *_KEY, *request, "-subj", f"/CN={name}")
        (self._folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        by = ("-CA", f"{self._name}.pem", "-CAkey", f"{self._name}.key", "-CAcreateserial")
        files = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        _openssl(self._folder, "x509", "-req", "-days", "1", *by, *files)
        return self.read(f"{name}.key"), self.read(f"{name}.pem")

    def server(self, *, clients: bool = False) -> grpc.ServerCredentials:
        """How a gateway `gateway.test` serves; `clients`: only those with a certificate."""
        pair = self.signs("gateway", "DNS:gateway.test")
        roots = self.pem if clients else None
        return grpc.ssl_server_credentials([pair], roots, require_client_auth=clients)


def _out(name: str) -> tuple[str, ...]:
    return ("-keyout", f"{name}.key", "-out", f"{name}.pem")


def _openssl(folder: Path, *arguments: str) -> None:
    command = ["openssl", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
