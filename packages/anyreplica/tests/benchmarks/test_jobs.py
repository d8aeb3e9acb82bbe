"""The study of jobs."""

import pytest

from tests.benchmarks.measuring import measured, medians

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
