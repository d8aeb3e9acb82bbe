"""All studies, one after the other.

python -m benchmarks.suite --quick
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.book import STUDIES
from benchmarks.interruption import held, installed
from benchmarks.process import PACKAGE, ROOT

CHOICES = ("transports", "asgi_servers", "session_flood", "modes", "scaling", "peers")
"""Studies that run without `--all`."""

_STOPPED = {number for each in (signal.SIGINT, signal.SIGTERM) for number in (128 + each, -each)}
"""Exit codes of a study that was stopped. The suite stops, too. Another signal ends only that study."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return 0 or the worst exit code of a study."""
    given = _parser().parse_args(arguments)
    names = [name for name in STUDIES if given.all or name in CHOICES]
    into: Path = given.into
    into.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began, failed = time.monotonic(), dict[str, int]()
    for number, name in enumerate(names, 1):
        console.print(f"[{number}/{len(names)}] {name}", markup=False, style="bold")
        file = into / f"{name}.json"
        file.unlink(missing_ok=True)  # A study that fails must not leave the figures of an earlier run.
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if given.quick else [])]
        code = _run([*command, "--json", os.path.relpath(file, PACKAGE)])
        if code in _STOPPED:
            return code if code > 0 else 128 - code
        if code:
            failed[name] = code
    minutes = (time.monotonic() - began) / 60
    console.print(f"{len(names)} studies in {minutes:.1f} min; the figures are in {os.path.relpath(into)}")
    for name, code in failed.items():
        console.print(f"✗ {name} ended with exit code {code}", markup=False, style="red")
    return max(map(abs, failed.values()), default=0)


def _run(command: list[str]) -> int:
    """Run a study and return its exit code.

    Raises:
        SystemExit: SIGINT or SIGTERM arrived, and the study has ended.
    """
    process = None
    with installed():
        try:
            with held():
                process = subprocess.Popen(command, cwd=PACKAGE)  # from where Python finds `benchmarks`
            return process.wait()
        except SystemExit as stopped:
            if process is not None:
                if stopped.code == 128 + signal.SIGTERM:  # A terminal sends Ctrl-C to the study, too.
                    process.terminate()
                process.wait()
            raise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite",
        description=f"Run the studies {', '.join(CHOICES)}; with --all, run all studies.",
        epilog="Exit codes: 0 all measured; otherwise the worst exit code of a study. The suite continues "
        "after a study that fails.",
    )
    parser.add_argument("--quick", action="store_true", help="run for about three minutes; the figures are rough")
    parser.add_argument("--all", action="store_true", help="also run exchange, generators, jobs, asking and metrics")
    parser.add_argument(
        "--into",
        type=lambda text: Path(text).absolute(),
        default=ROOT / "build" / "benchmarks",
        metavar="FOLDER",
        help="folder for the JSON files (default: build/benchmarks)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
