"""A TCP proxy in front of a gateway that can cut connections or fall silent."""

import contextlib
import socket
import struct
import threading


class Proxy:
    """Passes bytes on, in both directions, until it is told otherwise."""

    def __init__(self, target_port):
        self._target = target_port
        self._links = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def accepted(self):
        """How many connections there have been."""
        with self._lock:
            return len(self._links)

    def cut(self):
        """Resets all connections. New ones are taken."""
        for link in self._snapshot():
            link.reset()

    def fall_silent(self):
        """Passes nothing more on over the connections there are, and keeps them open.

        What is sent is acknowledged and dropped, so neither side gets an error. New
        connections are passed on.
        """
        for link in self._snapshot():
            link.silent.set()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _snapshot(self):
        with self._lock:
            return list(self._links)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            link = _Link(near, far)
            with self._lock:
                self._links.append(link)
            link.start()


class _Link:
    def __init__(self, near, far):
        self._near, self._far = near, far
        self.silent = threading.Event()
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        for source, sink in [(self._near, self._far), (self._far, self._near)]:
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def reset(self):
        for end in (self._near, self._far):
            with contextlib.suppress(OSError):
                # Nothing lingers: the other side gets a reset.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                if not self.silent.is_set():
                    sink.sendall(data)
            if not self.silent.is_set():
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            if not self.silent.is_set():
                self.reset()
