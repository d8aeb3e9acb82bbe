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

from benchmarks.book import ORDER
from benchmarks.interruption import held, installed
from benchmarks.process import ROOT

CHOICES = ("transports", "asgi_servers", "session_flood", "modes", "scaling", "peers")
"""What the README's claims rest on."""

_STOPPED = {number for each in (signal.SIGINT, signal.SIGTERM) for number in (128 + each, -each)}
"""Exit codes of a study that was told to stop, and the suite with it; other signals end that study only."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, or the worst of the studies'."""
    given = _parser().parse_args(arguments)
    names = [name for name in ORDER if given.all or name in CHOICES]
    into: Path = given.into
    into.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began, failed = time.monotonic(), dict[str, int]()
    for number, name in enumerate(names, 1):
        console.print(f"[{number}/{len(names)}] {name}", markup=False, style="bold")
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if given.quick else [])]
        for kind in ("json", "html"):
            file = into / f"{name}.{kind}"
            file.unlink(missing_ok=True)  # or a study that fails would leave an older one's
            command += [f"--{kind}", os.path.relpath(file, ROOT)]
        code = _run(command)
        if code in _STOPPED:
            return code if code > 0 else 128 - code
        if code:
            failed[name] = code
    minutes = (time.monotonic() - began) / 60
    console.print(f"{len(names)} studies in {minutes:.1f} min; figures and pages are in {os.path.relpath(into)}")
    for name, code in failed.items():
        console.print(f"✗ {name} ended with exit code {code}", markup=False, style="red")
    return max(map(abs, failed.values()), default=0)


def _run(command: list[str]) -> int:
    """A study's exit code.

    Raises:
        SystemExit: SIGINT or SIGTERM came, and the study has ended.
    """
    process = None
    with installed():
        try:
            with held():
                process = subprocess.Popen(command, cwd=ROOT)
            return process.wait()
        except SystemExit as stopped:
            if process is not None:
                if stopped.code == 128 + signal.SIGTERM:  # Ctrl-C of a terminal is the study's, too
                    process.terminate()
                process.wait()
            raise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite",
        description=f"Run the studies behind the README's claims: {', '.join(CHOICES)}.",
        epilog="Exit codes: 0 all measured; otherwise the worst of the studies'. One that fails stops no other.",
    )
    parser.add_argument("--quick", action="store_true", help="all of them in less than three minutes, roughly")
    parser.add_argument("--all", action="store_true", help="what a call costs, the load test, jobs and counting, too")
    parser.add_argument(
        "--into",
        type=lambda text: Path(text).absolute(),
        default=ROOT / "build" / "benchmarks",
        metavar="FOLDER",
        help="where JSON and pages go (default: build/benchmarks)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
