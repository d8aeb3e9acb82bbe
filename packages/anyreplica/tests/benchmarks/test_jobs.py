"""The study of jobs."""

import signal
import sys
from pathlib import Path

import pytest

from conftest import run
from tests.benchmarks.measuring import measured, medians
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone


@pytest.mark.needs("redis")
def test_it_runs() -> None:
    """Each figure has a plausible value, and no job is lost or run twice."""
    table = measured("jobs").table("jobs")
    figures = {row.name: medians(table, row.name)["figure"] for row in table.rows}
    assert 5 < figures["rate"] < 100_000
    assert 0 < figures["workers"] < 1_000
    assert 0 < figures["replicas"] < 1_000
    assert 0 < figures["submit-p50"] <= figures["submit-p99"] < 10_000
    assert 0 < figures["status-p50"] <= figures["status-p99"] < 10_000
    assert 0 < figures["alone-p50"] < 10_000
    assert 0 < figures["once-seconds"] < 60
    assert figures["once"] == 0
    assert 200 < figures["waiting"] < 20_000


def test_without_redis(tmp_path: Path) -> None:
    """Without redis-server the exit code is 2, and the message says what to install."""
    done = run(sys.executable, "-m", "benchmarks.jobs", "--quick", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "jobs: redis-server is not installed: apt-get install redis-server\n")


@pytest.mark.needs("redis")
def test_a_stopped_run_leaves_nothing() -> None:
    """A signal ends Redis and the replica, too."""
    leaves_nothing(signal.SIGTERM, "benchmarks.jobs")
