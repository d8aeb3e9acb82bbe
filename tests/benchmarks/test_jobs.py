"""The benchmark of jobs, as a person runs it."""

import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from conftest import run
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.jobs")


@pytest.mark.needs("redis")
def test_it_runs() -> None:
    """A row for each figure, alone on stdout, with figures that can be; what was submitted with a key is done once."""
    done = script("--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("```bash\npython -m benchmarks.jobs --quick\n```\n")
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    figures = [float(row[1].split()[0].replace(",", "")) for row in rows]
    assert [row[1].split()[1] for row in rows] == ["jobs/s", *["ms"] * 7, "s", "jobs", "bytes", "bytes"]
    rate, worker, replica, submit, submit_p99, poll, poll_p99, whole, seconds, wrong, waiting, own = figures
    assert 5 < rate < 100_000
    assert 0 < worker < 1_000
    assert 0 < replica < 1_000
    assert 0 < submit <= submit_p99 < 10_000
    assert 0 < poll <= poll_p99 < 10_000
    assert 0 < whole < 10_000
    assert 0 < seconds < 60
    assert wrong == 0
    assert 200 < own < waiting < 20_000
    assert ["✓" in row for row in rows if "done twice" in row[0]] == [True]


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--rounds", "0"], "--rounds"), (["--replicas", "3"], "--replicas"), (["now"], "now")]
)
def test_wrong_arguments(arguments: list[str], says: str) -> None:
    """Exit code 2, and which."""
    done = script(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_without_redis(tmp_path: Path) -> None:
    """Exit code 2, and what to do."""
    done = script("--quick", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "redis-server is not installed: apt-get install redis-server\n")


@pytest.mark.needs("redis")
def test_a_stopped_run_leaves_nothing() -> None:
    """No Redis, no replica."""
    leaves_nothing(signal.SIGTERM, "benchmarks.jobs")
