"""The runner: builds the programs, runs each case with each language, tells what came out."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

import broker
import cases
import languages
import processes
import stage
import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Over everything, builds included; cases that have not begun by then have failed.
OVERALL_SECONDS = 40 * 60
# What the cases that need no program are counted under.
ALONE = "runner"


@dataclasses.dataclass
class Outcome:
    """What came of one case with one language."""

    language: str
    case: str
    seconds: float
    # Why it failed, with the last words of all that took part; nothing if it passed.
    failure: str | None


class Run:
    """Everything that the cases share."""

    def __init__(self, options):
        self._options = options
        self._ends = time.monotonic() + OVERALL_SECONDS
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="ackgate-polyglot."))
        self._broker = None

    def outcomes(self, wanted_languages, wanted_cases):
        """Runs what is wanted; yields the outcomes as they come."""
        say(f"gateway: {self._gateway()}")
        spoken = [one for one in wanted_cases if not one.alone]
        commands = languages.build_all(wanted_languages if spoken else [], ROOT, say)
        pairs = [(ALONE, one, None) for one in wanted_cases if one.alone]
        # Languages in turn: what is slow in one of them is spread over the run.
        pairs += [(name, one, built) for one in spoken for name, built in commands.items()]
        began = time.monotonic()
        self._broker = broker.Broker(ROOT)
        say(f"Apache Kafka: {time.monotonic() - began:.0f} s")
        with concurrent.futures.ThreadPoolExecutor(self._options.jobs) as pool:
            try:
                for done in concurrent.futures.as_completed(
                    [pool.submit(self._one, *pair) for pair in pairs]
                ):
                    yield done.result()
            except BaseException:
                processes.stopping.set()
                processes.kill_all(but=self._broker.process)
                raise

    def _gateway(self):
        given = os.environ.get("ACKGATE_BIN")
        if not given:
            given = languages.cargo(ROOT, "--package", "ackgate", "--bin", "ackgate")
        self._binary = pathlib.Path(given).resolve()
        if not os.access(self._binary, os.X_OK):
            raise languages.NotBuilt(f"there is no gateway at {given}")
        return self._binary

    def _one(self, language, case, built):
        began = time.monotonic()
        if processes.stopping.is_set() or began > self._ends:
            return Outcome(language, case.name, 0, "not run: there was no time left")
        if isinstance(built, Exception):
            return Outcome(language, case.name, 0, f"not run: {built}")
        name = f"{case.name}.{language}"
        on = stage.Stage(name, built, ROOT, self._binary, self._broker, self._folder / name)
        failure = None
        try:
            case.run(on)
            on.finish()
        # Whatever it was, the other cases go on.
        except Exception as error:  # noqa: BLE001
            failure = "\n".join([_told(error), *on.last_words(self._options.lines)])
        finally:
            on.clear()
        return Outcome(language, case.name, time.monotonic() - began, failure)

    def close(self):
        # Killed, the broker would leave its data.
        if self._broker:
            self._broker.stop()
        processes.kill_all()
        if self._options.keep:
            say(f"kept: {self._folder}")
        else:
            shutil.rmtree(self._folder, ignore_errors=True)


def _told(error):
    where = traceback.extract_tb(error.__traceback__)
    here = [frame for frame in where if "/cases/" in frame.filename] or where
    last = here[-1]
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{kind}{error or last.line} ({pathlib.Path(last.filename).name}:{last.lineno})"


def say(words):
    print(words, flush=True)


def arguments():
    known_languages = [one.name for one in languages.ALL]
    known_cases = [one.name for one in cases.every()]
    parser = argparse.ArgumentParser(
        prog="tests/polyglot/run",
        description="Runs every conformance case with every language, against gateways on Apache "
        "Kafka. ACKGATE_BIN names the gateway's program; without it cargo builds one.",
        epilog="Exit codes: 0 all passed, 1 something failed or was not run, 2 wrong usage.",
    )
    parser.add_argument(
        "--language", action="append", choices=[*known_languages, ALONE], metavar="NAME",
        help=f"this language only; may be repeated: {', '.join([*known_languages, ALONE])}",
    )
    parser.add_argument(
        "--case", action="append", choices=known_cases, metavar="NAME",
        help="this case only; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="show the cases and end")
    parser.add_argument("--keep", action="store_true", help="keep the gateways' files")
    parser.add_argument(
        "--jobs", type=int, default=4, metavar="N", help="cases at a time (default: 4)"
    )
    parser.add_argument(
        "--lines", type=int, default=25, metavar="N",
        help="last lines of each process to show of a failure (default: 25)",
    )
    options = parser.parse_args()
    if options.jobs < 1 or options.lines < 0:
        parser.error("--jobs takes 1 or more, --lines 0 or more")
    return options


def main():
    options = arguments()
    if options.list:
        table.show_cases(cases.every())
        return 0
    # A run that is told to end ends as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    picked = [o for o in cases.every() if not options.case or o.name in options.case]
    spoken = [o for o in languages.ALL if not options.language or o.name in options.language]
    if options.language:
        picked = [one for one in picked if (ALONE in options.language if one.alone else spoken)]
    began = time.monotonic()
    run, outcomes = Run(options), []
    try:
        for one in run.outcomes(spoken, picked):
            outcomes.append(one)
            word = "ok" if one.failure is None else "FAILED"
            say(f"{word:6} {one.language:8} {one.case} ({one.seconds:.1f} s)")
    except languages.NotBuilt as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130
    finally:
        run.close()
    every = sum(1 if one.alone else len(languages.ALL) for one in cases.every())
    return table.tell(outcomes, every, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
