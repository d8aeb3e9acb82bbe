"""The study of sessions and stateless replicas."""

import signal
import sys
from pathlib import Path

import pytest

from conftest import run
from tests.benchmarks.measuring import measured, medians
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone


@pytest.mark.needs("haproxy")
def test_it_runs() -> None:
    """With affinity more calls succeed than with a plain round robin, but an update loses sessions.

    Stateless replicas lose none.
    """
    (table,) = measured("modes", "--only", "sessions,affinity,stateless").tables
    sessions, affinity, stateless = (medians(table, row) for row in ("sessions", "affinity", "stateless"))
    assert set(sessions) == {"success", "busiest", "rate", "p99", "cpu"}
    assert set(affinity) == set(stateless) == {column.name for column in table.columns}
    for figures in (sessions, affinity, stateless):
        assert 0 < figures["success"] <= 100
        assert 100 / 3 - 0.1 < figures["busiest"] <= 100
        assert 0 < figures["p99"] < 10_000
        assert 10 < figures["cpu"] < 1_000_000
    assert affinity["success"] > 1.5 * sessions["success"]
    assert affinity["update_sessions"] > 0
    assert stateless["update_sessions"] == stateless["kill_sessions"] == 0


@pytest.mark.needs("haproxy")
def test_a_stopped_run_leaves_nothing() -> None:
    """A signal ends three replicas and the proxy, too."""
    leaves_nothing(signal.SIGTERM, "benchmarks.modes", "--only", "stateless", processes=4)


def test_without_haproxy(tmp_path: Path) -> None:
    """Without HAProxy the exit code is 2, and the message says what to install."""
    done = run(sys.executable, "-m", "benchmarks.modes", "--quick", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "modes: haproxy is not installed: apt-get install haproxy\n")
