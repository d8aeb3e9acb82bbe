"""The benchmark of jobs, as a person runs it."""

import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.study.study import read
from conftest import run
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.jobs")


@pytest.mark.needs("redis")
def test_it_runs() -> None:
    """Figures that can be, as JSON alone on stdout; what was submitted with a key is done once."""
    done = script("--quick", "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    study = read(done.stdout)
    assert study.command == "python -m benchmarks.jobs --quick --json -"
    (table,) = study.findings.tables
    figures = {row.name: row.figures["figure"].median for row in table.rows}
    assert 5 < figures["rate"] < 100_000
    assert 0 < figures["workers"] < 1_000
    assert 0 < figures["replicas"] < 1_000
    assert 0 < figures["submit-p50"] <= figures["submit-p99"] < 10_000
    assert 0 < figures["status-p50"] <= figures["status-p99"] < 10_000
    assert 0 < figures["alone-p50"] < 10_000
    assert 0 < figures["once-seconds"] < 60
    assert figures["once"] == 0
    assert 200 < figures["waiting-keys"] < figures["waiting"] < 20_000
    assert "100 jobs 0 were lost or done twice" in study.findings.sentence


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
    assert (done.returncode, done.stderr) == (2, "jobs: redis-server is not installed: apt-get install redis-server\n")


@pytest.mark.needs("redis")
def test_a_stopped_run_leaves_nothing() -> None:
    """No Redis, no replica."""
    leaves_nothing(signal.SIGTERM, "benchmarks.jobs")
