"""Send many thousands of damaged requests to a replica, and report the results.

python -m tests.fuzz --inputs 100000 --seed 1
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from anyreplica.loadtest.arguments import positive
from benchmarks.progress import progress
from tests.fuzz.battery import BATCH, Battery, Report
from tests.fuzz.replica import running

EXIT_FOUND = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(arguments)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with running(folder) as replica, progress(errors, -(-options.inputs // BATCH) + 1) as step:
            step("0 inputs")
            report = Battery(replica, lambda inputs: step(f"{inputs} inputs")).run(options.inputs, options.seed)
    except KeyboardInterrupt:
        return 130
    except pytest.fail.Exception as error:
        errors.print(f"✗ {error}", markup=False)
        return EXIT_FOUND
    Console(highlight=False, soft_wrap=True).print(_told(report), markup=False)
    if not report.failures:
        shutil.rmtree(folder)
        return 0
    for number, found in enumerate(report.found.values(), 1):
        (folder / f"{number}.bin").write_bytes(found.data)
    for failure in report.failures:
        errors.print(f"✗ {failure}", markup=False)
    errors.print(f"{folder} contains the input of each numbered failure (1.bin, 2.bin …) and the logs.", markup=False)
    return EXIT_FOUND


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Start a replica and send it damaged requests of both protocol families, one after the other. "
        "Check each reply and the log, make a valid call after each batch, and check the replica's memory, its open "
        "files and the audit log.",
        epilog="Exit codes: 0: no failure. 1: at least one failure; a file contains the first input that caused it, "
        "and nc 127.0.0.1 8000 < FILE sends this input again. 2: invalid arguments.",
    )
    parser.add_argument(
        "--inputs", type=positive, default=100_000, metavar="N", help="number of inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of the random inputs (default: %(default)s)"
    )
    return parser


def _told(report: Report) -> str:
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(report.statuses.items()))
    return (
        f"{report.inputs} inputs: replies {statuses}; no reply to {report.silent} inputs without a complete request. "
        f"The slowest valid call after a batch took {1000 * report.slowest:.1f} ms. Memory: {report.memory[0]:.1f} MB "
        f"after the first batch, {report.memory[-1]:.1f} MB at the end, {report.growth_mb:+.1f} MB in the second half. "
        f"Open files: {report.files[0]} before, {report.files[1]} after. "
        f"Audit log: {report.audit or 'intact'}. Failures: {len(report.failures)}."
    )


if __name__ == "__main__":
    sys.exit(main())
