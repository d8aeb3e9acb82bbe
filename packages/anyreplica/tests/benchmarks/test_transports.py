"""The study of transports."""

import pytest

from benchmarks.transports.__main__ import TRANSPORTS
from tests.benchmarks.measuring import measured, medians


@pytest.mark.alone
def test_it_runs() -> None:
    """Each transport has figures; a process per client takes more memory than a shared one."""
    (table,) = measured("transports").tables
    assert [row.name for row in table.rows] == [transport.name for transport in TRANSPORTS]
    for row in table.rows:
        figures = medians(table, row.name)
        served = set() if row.name == "memory" else {"cpu", "rss_n"}
        connects = set() if row.name == "stdio-kept" else {"connect"}
        assert set(figures) == {"start", "p50", "p99", "mean_n"} | served | connects
        assert 0 < figures["p50"] <= figures["p99"] < 60_000
        assert 0 < figures["start"] < 120_000
        assert 10 < figures.get("cpu", 100) < 1_000_000
        assert 30 < figures.get("rss_n", 100) < 1_000
    assert table.spread("stdio-fresh", "rss_n").median > 1.3 * table.spread("stdio-kept", "rss_n").median
