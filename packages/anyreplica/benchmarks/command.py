"""The command line that every study has, and the run from the first process to the last file."""

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from anyreplica.load.arguments import duration, new_file, positive
from benchmarks import interruption
from benchmarks.load import LoadError
from benchmarks.machine import Machine, this_machine
from benchmarks.process import ProcessError, stop_all
from benchmarks.progress import Steps, progress
from benchmarks.study import Study, Table
from benchmarks.tables import show

EXIT_MISSED = 1
EXIT_MISSING = 2
EXIT_FAILED = 3
STDOUT = "-"


class Missing(Exception):
    """The whole study cannot run on this machine: a program or a right is missing. `str()` says what is missing."""


@dataclass(frozen=True)
class Run:
    """The settings and the helpers of one run."""

    given: argparse.Namespace
    """The study's own options."""
    quick: bool
    rounds: int
    seconds: float
    """Duration of one measurement; 0 for a study that counts instead."""
    machine: Machine
    folder: Path
    """Folder for files; it is deleted at the end."""
    step: Steps
    versions: dict[str, str]
    """Versions of the measured programs and packages, by name."""


@dataclass(frozen=True)
class Script:
    """The definition of a study."""

    name: str
    """Module below `benchmarks`."""
    description: str
    """Text for `--help`: the measurements of the study."""
    measure: Callable[[Run], list[Table]]
    """Function that measures.

    Raises:
        Missing, ProcessError, LoadError: The study has no result.
    """
    rounds: tuple[int, int]
    """Default number of rounds: with `--quick`, and without."""
    seconds: tuple[float, float] | None
    """Default duration of one measurement: with `--quick`, and without. None: the study counts instead."""
    packages: tuple[str, ...] = ("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "orjson")
    """Python packages whose versions the study records."""
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None
    """Function that adds the study's own options."""
    pinned: bool = True
    """True if this process stays on the load's core."""


def main(script: Script, arguments: Sequence[str] | None = None) -> int:
    """Run the command line of a study and return the exit code."""
    given = _parser(script).parse_args(arguments)
    usual = 0 if given.quick else 1
    machine = this_machine()
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    try:
        with (
            _pinned(machine.load_core if script.pinned else None),
            interruption.installed(),
            tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
            progress(errors, 0) as step,
            _stopped_at_end(),
        ):
            run = Run(
                given=given,
                quick=given.quick,
                rounds=given.rounds or script.rounds[usual],
                seconds=given.seconds or script.seconds[usual] if script.seconds else 0,
                machine=machine,
                folder=Path(folder),
                step=step,
                versions={name: version(name) for name in script.packages},
            )
            tables = script.measure(run)
    except Missing as error:
        errors.print(f"{script.name}: {error}", markup=False)
        return EXIT_MISSING
    except (ProcessError, LoadError) as error:
        errors.print(f"✗ failed: {error}", markup=False)
        return EXIT_FAILED
    given_arguments = sys.argv[1:] if arguments is None else arguments
    study = Study(
        name=script.name,
        command=shlex.join(["python", "-m", f"benchmarks.{script.name}", *given_arguments]),
        began=began,
        seconds=round(time.perf_counter() - clock, 1),
        machine=machine,
        quick=run.quick,
        rounds=run.rounds,
        versions=run.versions,
        tables=tables,
    )
    _write(study, given, errors)
    if study.failures:
        return EXIT_FAILED
    return EXIT_MISSED if given.check and study.missed else 0


def need(program: str, package: str) -> None:
    """Check that a program is installed.

    Raises:
        Missing: The program is not on PATH.
    """
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed: apt-get install {package}")


@contextmanager
def _stopped_at_end() -> Iterator[None]:
    """Stop the processes that are left at the end of the block."""
    try:
        yield
    finally:
        with interruption.held():
            stop_all()


@contextmanager
def _pinned(core: int | None) -> Iterator[None]:
    """Keep this process on one core until the end of the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _parser(script: Script) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{script.name}",
        description=script.description,
        epilog="Exit codes: 0 measured; 1 a target was missed, with --check; 2 wrong arguments, or a program is "
        "missing; 3 a process did not start, or a reply was wrong. packages/anyreplica/benchmarks/study.py documents "
        "the JSON.",
    )
    quick, usual = script.rounds
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"rounds (default: {usual}; with --quick {quick})")
    if script.seconds:
        short, long = script.seconds
        text = f"seconds of each measurement (default: {long:g}; with --quick {short:g})"
        parser.add_argument("--seconds", type=duration, metavar="S", help=text)
    parser.add_argument("--quick", action="store_true", help="run for about half a minute; the figures are rough")
    script.options(parser)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the figures as JSON; - for stdout")
    return parser


def _file(text: str) -> str:
    return text if text == STDOUT else str(new_file(text))


def _write(study: Study, given: argparse.Namespace, errors: Console) -> None:
    text = json.dumps(asdict(study), indent=1, ensure_ascii=False) + "\n"
    if given.json == STDOUT:
        sys.stdout.write(text)
        for line in (*study.failures, *(study.missed if given.check else [])):
            errors.print(f"✗ {line}", markup=False)
        return
    if given.json:
        Path(given.json).write_text(text)
    show(study, Console(width=300))  # A terminal may break a line; figures must not be cut off.
