"""All studies, one after the other.

python -m benchmarks.suite --quick
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.book import ORDER
from benchmarks.process import ROOT

CHOICES = ("transports", "asgi_servers", "session_flood", "modes", "scaling", "peers")
"""What the README's claims rest on."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, or the worst of the studies'."""
    given = _parser().parse_args(arguments)
    names = [name for name in ORDER if given.all or name in CHOICES]
    into: Path = given.into
    into.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    began, worst = time.monotonic(), 0
    for number, name in enumerate(names, 1):
        console.print(f"[{number}/{len(names)}] {name}", markup=False, style="bold")
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if given.quick else [])]
        command += ["--json", str(into / f"{name}.json"), "--html", str(into / f"{name}.html")]
        code = _run(command)
        if code < 0 or code >= 128:
            return abs(code)
        worst = max(worst, code)
    minutes = (time.monotonic() - began) / 60
    console.print(f"{len(names)} studies in {minutes:.1f} min; figures and pages are in {os.path.relpath(into)}")
    return worst


def _run(command: list[str]) -> int:
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # which the study got, too: it ends what it started
            continue


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
