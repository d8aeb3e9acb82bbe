"""The study of questions to the client."""

import pytest

from tests.benchmarks.measuring import measured, medians

pytestmark = [pytest.mark.alone, pytest.mark.needs("redis")]


def test_it_runs() -> None:
    """Each row has plausible figures."""
    table = measured("asking").table("questions")
    assert [row.name for row in table.rows] == ["two", "one", "stateful"]
    for row in table.rows:
        figures = medians(table, row.name)
        assert 0 < figures["p50"] <= figures["p99"] < 1_000
        assert 0 < figures["cpu"] < 100_000
