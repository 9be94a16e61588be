"""A gateway of a case: its configuration file, its process, its operators' view."""

import json
import signal
import socket
import subprocess
import time

import ports
import processes

# Delays short enough for tests; a case gives its own over them.
SUBSCRIPTION = {
    "cluster": "main",
    "start": "earliest",
    "order": "none",
    "backoff.initial": "50ms",
    "backoff.max": "50ms",
    "commit.interval": "200ms",
}


def toml(value):
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    # JSON's strings and numbers are TOML's.
    return json.dumps(value, ensure_ascii=False)


def configuration(bootstrap, port, subscriptions, top):
    """The configuration file: `top` by its keys, then the subscriptions by theirs."""
    lines = {
        "listen.address": f"127.0.0.1:{port}",
        "clusters.main.address": f"kafka://{bootstrap}",
        "log.filter": "info",
    } | top
    for name, settings in subscriptions.items():
        # A quoted name may have any letters.
        path = f"subscriptions.{toml(name)}."
        lines |= {path + key: value for key, value in (SUBSCRIPTION | settings).items()}
    return "".join(f"{key} = {toml(value)}\n" for key, value in lines.items())


class Gateway:
    """`ackgate serve` with a file of its own. It keeps its port over restarts."""

    def __init__(self, binary, folder, bootstrap, subscriptions, top):
        self.port = ports.free()
        self.admin = f"127.0.0.1:{ports.free()}"
        self._binary = binary
        self._file = folder / f"gateway-{self.port}.toml"
        top = {"admin.address": self.admin} | top
        self._file.write_text(configuration(bootstrap, self.port, subscriptions, top))
        self.process = None
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Starts it, and waits until it listens."""
        self.process = processes.Process(
            "ackgate serve", [self._binary, "serve", "--config", self._file]
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                code = self.process.code
                if code is not None:
                    self.process.end()
                    words = "\n".join(self.process.last_words(5))
                    raise AssertionError(f"the gateway ended with {code}: {words}") from None
                assert time.monotonic() < deadline, "the gateway does not listen"
                time.sleep(0.02)

    def terminate(self):
        """Asks it to stop."""
        self.process.signal(signal.SIGTERM)

    def end(self, within=40):
        """Waits for its end, which must be a graceful one."""
        code = self.process.end(within)
        assert code == 0, f"the gateway ended with {code}"

    def lanes(self, subscription):
        """Its lanes as `ackgate lanes --json` shows them."""
        command = [self._binary, "lanes", "--json", "--address", f"http://{self.admin}"]
        done = subprocess.run(
            [*command, subscription], capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == 0, f"ackgate lanes: {done.stderr}"
        return json.loads(done.stdout)
