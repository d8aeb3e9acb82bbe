"""The command line that every study has, and its run from the first process to the last file."""

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mcp_swarm.loadtest.arguments import new_file, positive
from rich.console import Console

from benchmarks import interruption
from benchmarks.load import LoadError
from benchmarks.machine import Machine, this_machine
from benchmarks.process import ProcessError, stop_all
from benchmarks.progress import progress
from benchmarks.study.page import render
from benchmarks.study.study import SCHEMA, Findings, Study
from benchmarks.study.terminal import show

EXIT_MISSED = 1
EXIT_REFUSED = 2
EXIT_FAILED = 3
STDOUT = "-"


class Missing(Exception):
    """What the whole study needs isn't there; `str()` says what, and how to get it."""


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


@dataclass(frozen=True)
class Run:
    """What a study is given to measure with."""

    given: argparse.Namespace
    """Its own options, and `quick`."""
    rounds: int
    machine: Machine
    folder: Path
    """For files; it goes away at the end."""
    step: Callable[[str], None]
    """Says what is done next."""


@dataclass(frozen=True)
class Script:
    """A study as its script defines it."""

    name: str
    """The module below `benchmarks`."""
    title: str
    claim: str
    description: str
    """For `--help`: what is done, in a paragraph."""
    rounds: tuple[int, int]
    """Unless said otherwise: with `--quick`, and without."""
    steps: Callable[[argparse.Namespace, int], int]
    """How often `Run.step` will be called, for so many rounds."""
    measure: Callable[[Run], Findings]
    """Measures.

    Raises:
        Missing, ProcessError, LoadError: nothing can be said.
    """
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None
    """Adds its own."""
    pinned: bool = True
    """Whether this process stays on the load's core."""
    targets: bool = False
    """Whether it may miss one."""


def main(script: Script, arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = _parser(script).parse_args(arguments)
    rounds = given.rounds or script.rounds[0 if given.quick else 1]
    command = shlex.join(
        ["python", "-m", f"benchmarks.{script.name}", *(sys.argv[1:] if arguments is None else arguments)]
    )
    machine = this_machine()
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    try:
        with _pinned(machine.load_core if script.pinned else None), interruption.installed():
            findings = _findings(script, given, rounds, machine, errors)
    except Missing as error:
        errors.print(f"{script.name}: {error}", markup=False)
        return EXIT_REFUSED
    except (ProcessError, LoadError) as error:
        errors.print(f"✗ failed: {error}", markup=False)
        return EXIT_FAILED
    seconds = round(time.perf_counter() - clock, 1)
    study = Study(
        schema=SCHEMA,
        name=script.name,
        title=script.title,
        claim=script.claim,
        command=command,
        began=began,
        seconds=seconds,
        machine=machine,
        quick=given.quick,
        rounds=rounds,
        findings=findings,
    )
    _write(study, given, errors)
    if study.failures:
        return EXIT_FAILED
    return EXIT_MISSED if script.targets and given.check and findings.missed else 0


def some_of(known: Sequence[_Named]) -> Callable[[str], list[_Named]]:
    """What reads names, separated by commas, as those of the known that have them; for argparse's `type`."""
    names = [each.name for each in known]

    def read(text: str) -> list[_Named]:
        wanted = text.split(",")
        for name in wanted:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(names)}")
        return [each for each in known if each.name in wanted]

    return read


def _findings(script: Script, given: argparse.Namespace, rounds: int, machine: Machine, errors: Console) -> Findings:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
            progress(errors, script.steps(given, rounds)) as step,
        ):
            return script.measure(Run(given, rounds, machine, Path(folder), step))
    finally:
        with interruption.held():
            stop_all()


@contextmanager
def _pinned(core: int | None) -> Iterator[None]:
    """This process on one core only, until the end of the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _parser(script: Script) -> argparse.ArgumentParser:
    missed = "1 a target was missed, with --check; " if script.targets else ""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{script.name}",
        description=f"{script.claim} {script.description}",
        epilog=f"Exit codes: 0 measured; {missed}2 wrong arguments, or something that all of it needs isn't installed; "
        "3 a process did not start, or gave a wrong reply. benchmarks/study/study.py documents what --json writes.",
    )
    quick, usual = script.rounds
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"rounds, in turns (default: {usual}; with --quick {quick})"
    )
    parser.add_argument("--quick", action="store_true", help="in about half a minute; the figures are rough")
    script.options(parser)
    if script.targets:
        parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the figures as JSON; - for stdout")
    parser.add_argument("--html", type=new_file, metavar="FILE", help="write a page with plots that needs no network")
    return parser


def _write(study: Study, given: argparse.Namespace, errors: Console) -> None:
    text = json.dumps(study.as_json(), indent=1, ensure_ascii=False) + "\n"
    if given.html:
        Path(given.html).write_text(render(study))
    if given.json == STDOUT:
        sys.stdout.write(text)
        missed = study.findings.missed if getattr(given, "check", False) else []
        for line in (*study.failures, *missed):
            errors.print(f"✗ {line}", markup=False)
        return
    if given.json:
        Path(given.json).write_text(text)
    show(study, Console(width=300))  # rather a line that the terminal breaks than figures cut off


def _file(text: str) -> Any:
    return text if text == STDOUT else new_file(text)
