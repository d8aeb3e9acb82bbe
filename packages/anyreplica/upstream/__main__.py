"""Run the tests of FastMCP or of the MCP SDK against anyreplica: `python -m upstream [fastmcp|sdk]`.

A test counts if it passes with the HTTP app of FastMCP or of the SDK (the control). The tests run with anyreplica
first, and only those that fail run with the control. The exit code is 1 if a test differs and `differences.toml` does
not have it, if `differences.toml` has a test that passes, or if all tests ran and fewer than `Suite.bounds` pass.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from upstream import differences
from upstream.report import Results, report
from upstream.sources import extra_packages, source_of
from upstream.suites import SUITES, Suite

_ATTEMPTS = 2
"""How often a test may fail before it counts: on a busy machine, some of FastMCP's tests fail now and then."""

SETTINGS = {
    "FASTMCP_MASK_ERROR_DETAILS": "false",
    "FIRST_EVENT_SECONDS": "0.1",
    "FORWARD_HEADERS": "X-Test,X-Caller,X-Shared,X-Client-Tag,Not-Host",
    "READINESS_PATH": "/replica/ready",
}
"""Settings of the tests that change what anyreplica does by default. The page of the differences names them."""


def main() -> int:
    """Run the tests. Return the exit code."""
    parser = _parser()
    options = parser.parse_intermixed_args()
    if options.suite == "sdk" and options.sessions != "off":
        parser.error("--sessions: each test of the SDK chooses by stateless_http whether clients have sessions")
    suite = SUITES[options.suite]
    run = _Run(suite, options)
    ours = run.tests("anyreplica")
    failed = _failed(ours)
    control = run.tests("control", None if options.whole_control else failed)
    differing = {test for test in failed if _passed(control, test)}
    known = [each for each in differences.load() if each.suite == options.suite and options.sessions in each.modes]
    for _ in range(_ATTEMPTS - 1):
        again = differences.unexpected(differing, [each for each in known if not each.sometimes])
        if again:
            # One test at a time: some tests have a time limit of 10 ms, and fail beside others.
            repeated = run.tests("anyreplica", again, workers=1)
            differing -= {test for test, each in repeated.items() if each["outcome"] == "passed"}
    passing = {test for test in ours if _passed(ours, test) or (test in failed and test not in differing)}
    if options.whole_control:
        passing &= {test for test in control if _passed(control, test)}
    else:
        passing -= failed - differing
    bound = suite.bounds[options.sessions] if not options.tests and options.share == 1 else None
    return report(ours, passing, differing, known, bound)


class _Run:
    """Runs pytest on the tests of a suite."""

    def __init__(self, suite: Suite, options: argparse.Namespace) -> None:
        self._suite, self._options = suite, options
        self._source = source_of(suite.package)
        package = Path(__file__).parents[1]
        self._environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"},
            # The source beside this folder, also if the environment has anyreplica from another one.
            "PYTHONPATH": os.pathsep.join(map(str, (package / "src", package, extra_packages()))),
            "PYTHONDONTWRITEBYTECODE": "1",
            **SETTINGS,
            "HANDSHAKE_SESSIONS": options.sessions,
            # The default of FastMCP's HTTP app. A test that chooses itself gets what it chooses, in both runs.
            "FASTMCP_STATELESS_HTTP": str(options.sessions == "off").lower(),
            "SHUTDOWN_GRACE_SECONDS": "1",
            "LOOP_STALL_SECONDS": "0",
        }

    def tests(self, served_by: str, only: Collection[str] | None = None, workers: int = 0) -> Results:
        """Run the tests of the suite.

        Args:
            only: ids of the tests that run. None: all tests.
            workers: number of processes that run tests. 0: the number of the option `--workers`.

        Returns:
            Their results by test id.
        """
        if only is not None and not only:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            # Every client would load all certificates of the system. The tests reach no server of another machine.
            environment = {**self._environment, "SSL_CERT_DIR": folder}
            results, names = Path(folder, "results"), Path(folder, "names")
            if only is None:
                where = self._options.tests or list(self._suite.files(self._source, self._options.share))
            else:
                names.write_text("\n".join(only))
                where = sorted({test.partition("::")[0] for test in only})
            command = [
                # Without this option, a configuration in the folder of temporary files would count.
                *(sys.executable, "-m", "pytest", "-c", "pyproject.toml"),
                *("-p", "upstream.plugin", "-p", "no:cacheprovider", "-q"),
                *("--served-by", served_by, "--results", str(results), "-n", str(workers or self._options.workers)),
                *(
                    "--continue-on-collection-errors",
                    "-o",
                    "timeout=60",
                    "-o",
                    "timeout_func_only=true",
                    "--tb=short",
                    "-o",
                    "log_cli=false",
                ),
                *(["--sessions"] if self._options.sessions != "off" else []),
                *(["--only", str(names)] if only is not None else []),
                *self._suite.options,
                *where,
            ]
            log = Path(folder, "log")
            with log.open("w") as stream:
                subprocess.run(command, cwd=self._source, env=environment, stdout=stream, stderr=stream, check=False)
            lines = log.read_text().splitlines()
            print(f"{served_by}: {lines[-1] if lines else 'no output'}", flush=True)
            if not results.exists():
                raise RuntimeError("pytest wrote no results:\n" + "\n".join(lines[-40:]))
            if self._options.keep:
                target = Path(self._options.keep)
                target.mkdir(parents=True, exist_ok=True)
                (target / f"{served_by}.jsonl").write_text(results.read_text())
                (target / f"{served_by}.log").write_text(log.read_text())
            read = map(json.loads, results.read_text().splitlines())
            return {each.pop("test"): each for each in read}


def _failed(results: Results) -> set[str]:
    return {test for test, each in results.items() if each["outcome"] == "failed"}


def _passed(results: Results, test: str) -> bool:
    return test in results and results[test]["outcome"] == "passed"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    parser.add_argument("suite", nargs="?", choices=SUITES, default="fastmcp")
    parser.add_argument("tests", nargs="*", help="files or ids of tests; the default is all that use a server")
    parser.add_argument(
        "--sessions", choices=("off", "full"), default="off", help="HANDSHAKE_SESSIONS, for FastMCP's tests"
    )
    parser.add_argument(
        "--share", type=int, default=1, metavar="N", help="run only every N-th file; the day decides which"
    )
    parser.add_argument("--workers", type=int, default=3, help="processes of pytest-xdist (default: 3)")
    parser.add_argument("--whole-control", action="store_true", help="run all tests with the control, too")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the results and logs of the last runs in this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
