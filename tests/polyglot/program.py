"""A running conformance program: its events, its waits, its end."""

import os
import signal

import events
import processes

# Time for whatever is waited for, unless a case says otherwise.
PATIENCE = 30


class Program(processes.Process):
    """One subscriber in some language."""

    def __init__(self, command, root, arguments):
        # A proxy between programs on loopback would be found by some libraries alone.
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self.events = []
        self.breaches = []
        super().__init__("the program", [*command, *arguments], cwd=root, env=env)

    def take_out(self, line):
        super().take_out(line)
        try:
            self.events.append(events.parse(line))
        except (ValueError, KeyError, TypeError) as error:
            self.breaches.append(f"{error}: {line[:200]}")

    def all(self, kind, **fields):
        """The events of a kind so far whose fields have these values."""
        with self.changed:
            return self._all(kind, fields)

    def _all(self, kind, fields):
        def fits(one):
            return all(one.get(name) == value for name, value in fields.items())

        return [one for one in self.events if one["event"] == kind and fits(one)]

    def so_far(self):
        """All events so far, in order."""
        with self.changed:
            return list(self.events)

    def count(self, number, kind, within=PATIENCE, **fields):
        """Waits for so many events of a kind with these fields; returns those there are."""
        told = " ".join([kind, *(f"{name}={value}" for name, value in fields.items())])

        def enough():
            found = self._all(kind, fields)
            return found if len(found) >= number else None

        return self.wait(f"{number} × {told}", enough, within)

    def first(self, kind, within=PATIENCE, **fields):
        """Waits for the first event of a kind with these fields."""
        return self.count(1, kind, within, **fields)[0]

    def deliveries(self):
        return self.all("delivery")

    def terminate(self):
        self.signal(signal.SIGTERM)

    def close(self, within=PATIENCE):
        """Asks it to stop and waits for its graceful end; returns its last words."""
        self.terminate()
        return self.closed(within)

    def closed(self, within=PATIENCE):
        """Waits for its graceful end; returns its last words."""
        code = self.end(within)
        last = self.events[-1] if self.events else None
        assert last and last["event"] == "closed", f"its last word is {last}, exit code {code}"
        assert code == 0, f"it ended with {code}"
        return last

    def gives_up(self, within=PATIENCE):
        """Waits for its end by an error that is not tried again; returns that."""
        code = self.end(within)
        last = self.events[-1] if self.events else None
        assert last and last["event"] == "error", f"its last word is {last}, exit code {code}"
        assert code == 1, f"it ended with {code}"
        return last

    def keeps_contract(self):
        """Fails if it printed anything but events as they are agreed."""
        with self.changed:
            breach = self.breaches[0] if self.breaches else None
        assert breach is None, f"a line breaks the contract: {breach}"

