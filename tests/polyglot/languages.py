"""The languages: how each one's conformance program is built and started.

A row here is all that a new language needs beside its folder.
"""

import dataclasses
import json
import subprocess
import time

import processes

# From cold: packages fetched, code generated, everything compiled.
BUILD_SECONDS = 20 * 60
EXAMPLES = "client/examples"


@dataclasses.dataclass(frozen=True)
class Language:
    """One way to run the conformance program."""

    name: str
    # Folder with the executable `build`; languages may share one. Nothing: cargo.
    folder: str | None
    # From the repository's root.
    command: tuple


_PYTHON = (f"{EXAMPLES}/python/.venv/bin/python", "-m", "ackgate_conformance")
# A short run is over before a better compiler would pay.
_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar")

ALL = [
    Language("python", "python", _PYTHON),
    Language("asyncio", "python", (*_PYTHON, "--asyncio")),
    Language("node", "node", ("node", f"{EXAMPLES}/node/dist/conformance.js")),
    Language("go", "go", (f"{EXAMPLES}/go/bin/conformance",)),
    Language("java", "java", (*_JAVA, f"{EXAMPLES}/java/target/conformance.jar")),
    Language("rust", None, ()),
]


class NotBuilt(Exception):
    """There is no program in this language; the text says why, with the last output."""


def build(language, root):
    """Builds the program and returns its command."""
    if language.folder is None:
        return (cargo(root, "--package", "ackgate-client", "--example", "conformance"),)
    script = root / EXAMPLES / language.folder / "build"
    if not script.exists():
        raise NotBuilt(f"{EXAMPLES}/{language.folder}/build is missing")
    process = processes.Process(f"{language.folder}/build", [script], cwd=root)
    try:
        code = process.end(BUILD_SECONDS)
    except AssertionError as error:
        process.kill()
        raise NotBuilt(str(error)) from error
    if code != 0:
        words = "\n".join(process.last_words(40))
        raise NotBuilt(f"{EXAMPLES}/{language.folder}/build ended with {code}:\n{words}")
    return language.command


def build_all(wanted, root, say):
    """Builds each folder once, one after another.

    Returns by language its command or the `NotBuilt` that stands for it.
    """
    by_folder, commands = {}, {}
    for language in wanted:
        if language.folder not in by_folder:
            began = time.monotonic()
            try:
                by_folder[language.folder] = build(language, root)
            except NotBuilt as error:
                by_folder[language.folder] = error
            say(f"built {language.folder or 'rust'}: {time.monotonic() - began:.0f} s")
        built = by_folder[language.folder]
        shared = language.folder is not None and not isinstance(built, NotBuilt)
        commands[language.name] = language.command if shared else built
    return commands


def cargo(root, *what):
    """Builds one program with cargo and returns its path."""
    command = ["cargo", "build", "--locked", "--message-format", "json", *what]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    paths = [one["executable"] for one in messages if one.get("executable")]
    return paths[-1]
