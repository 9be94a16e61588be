"""Ports of loopback that nothing listens on, each given out once in a run."""

import random
import socket
import threading

# Below those that the system gives to outgoing connections, which could take a port
# between the moment it is found free and the moment somebody listens on it.
_RANGE = range(20_000, 32_000)
_given = set()
_lock = threading.Lock()


def free():
    """A free port."""
    with _lock:
        for _ in range(1000):
            port = random.choice(_RANGE)
            if port in _given:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            _given.add(port)
            return port
    raise AssertionError("loopback has no free port")
