"""Child processes: started, read line by line, signalled by id, and gone when the run is."""

import collections
import os
import signal
import subprocess
import threading
import time

# What a process wrote last, for the report of a failure.
KEPT_LINES = 400

# Set once the run is told to end: nothing is started or waited for any more.
stopping = threading.Event()
_running = set()
_lock = threading.Lock()


class Ended(AssertionError):
    """A process ended before what was waited for had happened."""


class Process:
    """A running program whose output is kept. Ends with `kill` at the latest."""

    def __init__(self, name, command, cwd=None, env=None, stdin=subprocess.DEVNULL):
        assert not stopping.is_set(), "the run ends"
        self.name = name
        self.tail = collections.deque(maxlen=KEPT_LINES)
        self.changed = threading.Condition()
        # A session of its own: Ctrl-C in the terminal is for the runner alone, and what
        # the program starts can be ended with it.
        self._child = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with _lock:
            _running.add(self)
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, take), daemon=True)
            for pipe, take in [
                (self._child.stdout, self.take_out),
                (self._child.stderr, self.take_err),
            ]
        ]
        for reader in self._readers:
            reader.start()

    def take_out(self, line):
        """Takes one line of standard output; under the lock of `changed`."""
        self.tail.append(line)

    def take_err(self, line):
        """Takes one line of standard error; under the lock of `changed`."""
        self.tail.append("! " + line)

    def _read(self, pipe, take):
        for line in pipe:
            with self.changed:
                take(line.decode("utf-8", "replace").rstrip("\n"))
                self.changed.notify_all()
        pipe.close()

    @property
    def pid(self):
        return self._child.pid

    @property
    def code(self):
        """Its exit code, or nothing while it runs."""
        return self._child.poll()

    def wait(self, what, condition, within):
        """Waits until `condition()` is true, and returns what it returned.

        It is looked at whenever the process has written a line, under the lock.
        """
        deadline = time.monotonic() + within
        ended = None
        with self.changed:
            while True:
                found = condition()
                if found:
                    return found
                # The pipes may hold more than was read when the process ended.
                if self.code is not None and not any(r.is_alive() for r in self._readers):
                    if ended:
                        raise Ended(f"{self.name} ended with {self.code}, waiting for: {what}")
                    ended = True
                    continue
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {within} s: {what} ({self.name})")
                self.changed.wait(min(left, 0.2))

    def signal(self, number):
        """Sends it a signal, if it still runs."""
        if self.code is None:
            self._child.send_signal(number)

    def end(self, within=20):
        """Waits for its end and the end of its output; returns its exit code."""
        try:
            code = self._child.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {within} s") from None
        for reader in self._readers:
            reader.join(5)
        with _lock:
            _running.discard(self)
        return code

    def kill(self):
        """Ends it and what it started at once. Does no harm to one that has ended."""
        if self.code is None:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.end(10)

    def last_words(self, lines):
        with self.changed:
            return list(self.tail)[-lines:]


def kill_all(but=None):
    """Ends everything that was started here and still runs, but for one."""
    with _lock:
        left = _running - {but}
    for process in left:
        try:
            process.kill()
        except (AssertionError, OSError):
            pass
