"""The study of ASGI servers."""

import pytest

from benchmarks.asgi_servers.__main__ import SERVERS
from tests.benchmarks.measuring import measured, medians


@pytest.mark.alone
def test_it_runs() -> None:
    """Each server that is installed has figures of the process that serves."""
    (table,) = measured("asgi_servers", "--seconds", "0.1").tables
    assert [row.name for row in table.rows] == [server.name for server in SERVERS]
    for row in (row for row in table.rows if not row.skipped):
        figures = medians(table, row.name)
        assert 5 < figures["cpu"] < 100_000
        assert figures["rate"] > 1
        assert 0 < figures["p99"] < 60_000
        assert 50 < figures["rss"] < 500
