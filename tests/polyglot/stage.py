"""What one case with one language works with; everything on it ends with the case."""

import time

import certificates
import gateway
import processes
import proxy
from program import PATIENCE, Program


class Stage:
    """Topics and groups of its own on the run's broker, its gateways and programs."""

    def __init__(self, name, command, root, binary, broker, folder):
        # Unique in the run: topics and groups begin with it.
        self.name = name
        self.broker = broker
        self.folder = folder
        self._command = command
        self._root = root
        self._binary = binary
        self._gateways = []
        self._programs = []
        self._proxies = []
        folder.mkdir(parents=True)

    def topic(self, partitions=1, name="in", **config):
        """A new topic; keywords are its configuration, with `_` for `.`."""
        topic = f"{self.name}.{name}"
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        self.broker.create(topic, partitions, config)
        return topic

    def group(self, subscription="work"):
        return f"{self.name}.{subscription}"

    def gateway(self, subscriptions, **top):
        """Starts a gateway for subscriptions by name, each a dict of its settings.

        A topic under `dead` is its dead-letter topic; without one what is refused is
        dropped. Keywords are the file's other keys, with `__` for `.`.
        """
        written = {}
        for name, settings in subscriptions.items():
            settings = {"group": self.group(name)} | settings
            dead = settings.pop("dead", None)
            settings |= {"dead_letter.topic": dead} if dead else {"on_reject": "drop"}
            written[name] = settings
        top = {key.replace("__", "."): value for key, value in top.items()}
        one = gateway.Gateway(self._binary, self.folder, self.broker.address, written, top)
        self._gateways.append(one)
        return one

    def proxy(self, target):
        one = proxy.Proxy(target.port)
        self._proxies.append(one)
        return one

    def program(self, at, *arguments, subscription="work"):
        """Starts a program on a gateway, a proxy or an address."""
        address = at if isinstance(at, str) else at.address
        words = ["--address", address, "--subscription", subscription, *map(str, arguments)]
        return self.run_program(*words)

    def run_program(self, *arguments):
        """Starts a program with nothing but these arguments."""
        one = Program(self._command, self._root, arguments)
        self._programs.append(one)
        return one

    def certificates(self):
        """A fresh authority and files that it signed."""
        return certificates.Authority(self.folder)

    def file(self, name, text):
        """Writes a file of the case's own and returns its path."""
        path = self.folder / name
        path.write_text(text)
        return path

    def settled(self, topic, subscription="work", within=PATIENCE):
        """Waits until Kafka has every partition committed at its log end."""
        ends = {number: end for number, end in self.broker.ends(topic).items() if end > 0}
        assert ends, f"{topic} is empty"

        def committed():
            return self.broker.committed(self.group(subscription), topic)

        eventually(
            f"{topic} is committed at its log end {ends}",
            lambda: {n: p for n, p in committed().items() if p >= 0} == ends,
            within,
            committed,
        )

    def finish(self):
        """Checks what holds after every case."""
        for one in self._programs:
            one.keeps_contract()
        for one in self._gateways:
            panics = [line for line in one.process.tail if "panicked at" in line]
            assert not panics, f"the gateway panicked: {panics[0]}"

    def clear(self):
        """Ends everything that still runs."""
        for one in self._programs:
            one.kill()
        for one in self._proxies:
            one.close()
        for one in self._gateways:
            one.process.kill()

    def last_words(self, lines):
        """What the programs and gateways wrote last, as lines to print."""
        told = []
        for name, process in [
            *((f"program {n}", one) for n, one in enumerate(self._programs, 1)),
            *((f"gateway {n}", one.process) for n, one in enumerate(self._gateways, 1)),
        ]:
            told.append(f"  {name}, exit code {process.code}:")
            told.extend(f"    {line[:300]}" for line in process.last_words(lines))
        return told


def eventually(what, condition, within=PATIENCE, shown=None):
    """Asks again and again until it is so, or fails with what was shown last."""
    deadline = time.monotonic() + within
    while not condition():
        assert not processes.stopping.is_set(), f"the run ends, waiting for: {what}"
        if time.monotonic() >= deadline:
            found = f"; it is {shown()}" if shown else ""
            raise AssertionError(f"not within {within} s: {what}{found}")
        time.sleep(0.05)
