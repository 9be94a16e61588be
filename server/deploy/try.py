#!/usr/bin/env python3
"""Tries the dashboard and the alert rules on a gateway at work.

`ackgate demo` runs, a Prometheus scrapes its /metrics, and every expression of the dashboard, its
variables and the alert rules is asked. It fails if one cannot be evaluated, if a panel shows
nothing that is not in QUIET, if an alert fires, if a label is asked for a value that it never has,
or if /metrics is not as promtool has it. Called by `check --demo`, which knows where the programs
are. Everything is on loopback, and ends with it.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent

# Panels that have nothing to show while the demo runs as it should.
QUIET = {
    "Lanes that are held",
    "Lanes that are stalled",
}

# For as long as this things may take to come up, in seconds.
PATIENCE = 120

# Scrapes that rates need, and how far apart they are.
SCRAPES, INTERVAL = 8, 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("ackgate", "promtool", "prometheus"):
        arguments.add_argument(f"--{program}", required=True)
    arguments.add_argument("--show", action="store_true", help="prints how much each expression returns")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, Running() as running:
        folder = pathlib.Path(folder)
        admin = demo(running, options.ackgate, folder)
        text, kind = until("/metrics", lambda: get(f"http://{admin}/metrics"))
        complaints = lint(options.promtool, text, kind)
        server = prometheus(running, options.prometheus, folder, admin)
        complaints += ask_everything(server, options.show)
    for complaint in complaints:
        print(f"server/deploy/try.py: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


class Running:
    """Processes of ours, which end with us."""

    def __enter__(self):
        self.processes = []
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def start(self, command, log, **more):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
        self.processes.append(process)
        return process

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def demo(running, program, folder):
    """Starts the demo; where its admin address is, as it says."""
    path = folder / "demo.log"
    with path.open("wb") as log:
        process = running.start([program, "demo"], log)

    def told():
        if process.poll() is not None:
            sys.exit(f"the demo ended with {process.returncode}:\n{path.read_text(errors='replace')}")
        found = re.search(r"http://(127\.0\.0\.1:\d+)/(?:metrics|readyz)", path.read_text(errors="replace"))
        return found and found.group(1)

    return until("the demo's admin address", told)


def prometheus(running, program, folder, admin):
    """Starts a Prometheus with the example's configuration, but for the target and the pace."""
    example = (HERE / "prometheus" / "prometheus.yml").read_text()
    example, targets = re.subn(r'targets: \["[^"]*"\]', f'targets: ["{admin}"]', example)
    example, paces = re.subn(r"(_interval): 15s", rf"\1: {INTERVAL}s", example)
    if (targets, paces) != (1, 2):
        sys.exit("prometheus.yml is not as it was: nothing to put the target and the pace in")
    config = folder / "prometheus.yml"
    config.write_text(example)
    (folder / "ackgate.rules.yml").write_bytes((HERE / "prometheus" / "ackgate.rules.yml").read_bytes())
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    path = folder / "prometheus.log"
    with path.open("wb") as log:
        process = running.start([*command, f"--web.listen-address={address}"], log)
    server = f"http://{address}"

    def scraped():
        if process.poll() is not None:
            sys.exit(f"Prometheus ended:\n{path.read_text(errors='replace')}")
        (target,) = api(server, "targets")["activeTargets"] or [{}]
        if target.get("lastError"):
            raise OSError(target["lastError"])
        seen = query(server, 'sum_over_time(up{job="ackgate"}[5m])')
        # A subscription has all its lanes only once the group has given them.
        return seen and float(seen[0]["value"][1]) >= SCRAPES and query(server, "ackgate_lane_lag_records")

    until("scrapes", scraped)
    return server


def lint(promtool, text, kind):
    """What promtool says of /metrics. It reads the older text format only."""
    if "openmetrics" in kind:
        return [f"/metrics is {kind} also for those who do not ask for it"]
    result = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    said = (result.stdout + result.stderr).decode().splitlines()
    series = sum(1 for line in text.decode().splitlines() if line and not line.startswith("#"))
    print(f"/metrics: {series} series, promtool says {said or 'nothing'}")
    complaints = [f"promtool check metrics: {line}" for line in said]
    if result.returncode and not complaints:
        complaints.append("promtool check metrics failed")
    return complaints


def ask_everything(server, show):
    rules = [rule for group in api(server, "rules")["groups"] for rule in group["rules"]]
    complaints, empty, asked = [], [], 0
    for place, expression in expressions():
        asked += 1
        try:
            results = query(server, filled_in(expression))
        except ValueError as error:
            complaints.append(f"{place}: {error}: {expression}")
            continue
        if show:
            print(f"{len(results):5} {place}: {expression}")
        if not any(result["value"][1] != "NaN" for result in results):
            empty.append(place)
    complaints += unknown_values(server, rules)
    loud = sorted({place for place in empty} - {f"panel {title}" for title in QUIET})
    complaints += [f"{place} shows nothing" for place in loud if place.startswith("panel")]
    for rule in rules:
        asked += 1
        if rule["health"] == "err":
            complaints.append(f"alert {rule['name']}: {rule['lastError']}")
        if rule["state"] == "firing":
            complaints.append(f"alert {rule['name']} fires: {rule['alerts']}")
        if show:
            print(f"      alert {rule['name']}: {rule['state']}")
    print(f"{asked} expressions asked, of {len(rules)} alerts and the dashboard; without data: {len(empty)}")
    return complaints


def unknown_values(server, rules):
    """Values that labels of closed sets never have: what asks for one finds nothing, silently."""
    page = (HERE.parent / "runbook.md").read_text()
    asked = [expression for _, expression in expressions()] + [rule["query"] for rule in rules] + [page]
    selectors = re.findall(r"(ackgate_\w+)\{([^}]*)\}", "\n".join(asked))
    wanted = {
        (name, label, value)
        for name, matchers in selectors
        for label, values in re.findall(r'(cause|kind|outcome|reason|state)=~?"([^"]*)"', matchers)
        for value in values.split("|")
    }
    # What never happens in a demo has no series there.
    never = {"ackgate_lane_held"}
    return [
        f"{name} never has {label}={value!r}"
        for name, label, value in sorted(wanted)
        if name not in never and not query(server, f'{name}{{{label}="{value}"}}')
    ]


def expressions():
    """Every expression of the dashboard, with where it stands."""
    board = json.loads((HERE / "grafana" / "ackgate.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for variable in board["templating"]["list"]:
        if isinstance(variable["query"], dict):
            yield f"variable {variable['name']}", re.fullmatch(
                r"label_values\((.*), (\w+)\)", variable["query"]["query"]
            ).expand(r"group by (\2) (\1)")
    for mark in board["annotations"]["list"]:
        if "expr" in mark:
            yield f"annotation {mark['name']}", mark["expr"]


def filled_in(expression):
    """As Grafana would send it, with everything selected."""
    span = f"{SCRAPES * INTERVAL}s"
    for name, value in (("$__rate_interval", span), ("$__interval", span), ("$__range", span)):
        expression = expression.replace(name, value)
    return re.sub(r"\$(instance|subscription|topic)\b", ".*", expression)


def query(server, expression):
    return api(server, "query", query=expression)["result"]


def api(server, path, **parameters):
    url = f"{server}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        body, _ = get(url)
    except urllib.error.HTTPError as error:
        raise ValueError(json.loads(error.read())["error"]) from error
    return json.loads(body)["data"]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read(), response.headers.get("Content-Type", "")


def until(what, condition):
    """The first true answer, and an end with an error when none comes."""
    end, last = time.monotonic() + PATIENCE, "nothing came"
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (OSError, ValueError) as error:
            last = error
        time.sleep(0.25)
    sys.exit(f"{what}: not within {PATIENCE} s: {last}")


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


if __name__ == "__main__":
    os.environ.pop("http_proxy", None)
    sys.exit(main())
