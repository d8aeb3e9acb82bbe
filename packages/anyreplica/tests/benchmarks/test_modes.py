"""The study of sessions and stateless replicas."""

import pytest

from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


@pytest.mark.needs("haproxy")
def test_it_runs() -> None:
    """Affinity answers more calls than a plain round robin, and loses sessions at an update; without, none are lost."""
    (table,) = measured("modes", "--only", "sessions,affinity,stateless").tables
    sessions, affinity, stateless = (medians(table, row) for row in ("sessions", "affinity", "stateless"))
    assert set(sessions) == {"success", "busiest", "rate", "p99", "cpu"}
    assert set(affinity) == set(stateless) == {column.name for column in table.columns}
    for figures in (sessions, affinity, stateless):
        assert 0 < figures["success"] <= 100
        assert 100 / 3 - 0.1 < figures["busiest"] <= 100
        assert 0 < figures["p99"] < 10_000
        assert 0 < figures["cpu"] < 1_000_000
    assert affinity["success"] > 1.5 * sessions["success"]
    assert affinity["update_sessions"] > 0
    assert stateless["update_sessions"] == stateless["kill_sessions"] == 0
