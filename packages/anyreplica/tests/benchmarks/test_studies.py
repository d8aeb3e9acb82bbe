"""Short runs of the studies that have no test file of their own."""

import pytest

from benchmarks.asgi_servers.__main__ import SERVERS
from benchmarks.command import main
from benchmarks.metrics import SCRIPT as METRICS
from benchmarks.study import read
from benchmarks.transports.__main__ import TRANSPORTS
from tests.benchmarks.measuring import measured, medians


@pytest.mark.alone
def test_asgi_servers() -> None:
    """The study measures the serving process of each installed server."""
    (table,) = measured("asgi_servers", "--seconds", "0.1").tables
    assert [row.name for row in table.rows] == [server.name for server in SERVERS]
    for row in (row for row in table.rows if not row.skipped):
        figures = medians(table, row.name)
        assert 0 < figures["cpu"] < 100_000
        assert figures["rate"] > 0
        assert 0 < figures["p99"] < 60_000
        assert 50 < figures["rss"] < 500


@pytest.mark.alone
@pytest.mark.needs("redis")
def test_asking() -> None:
    """Each row has plausible figures."""
    table = measured("asking").table("questions")
    assert [row.name for row in table.rows] == ["two", "one", "stateful"]
    for row in table.rows:
        figures = medians(table, row.name)
        assert 0 < figures["p50"] <= figures["p99"] < 1_000
        assert 0 < figures["cpu"] < 100_000


@pytest.mark.alone
@pytest.mark.needs("redis")
def test_jobs() -> None:
    """Each figure has a plausible value, and no job is lost or run twice."""
    table = measured("jobs").table("jobs")
    figures = {row.name: medians(table, row.name)["figure"] for row in table.rows}
    assert 0 < figures["rate"] < 100_000
    assert all(0 < figures[name] < 1_000 for name in ("workers", "replicas"))
    for kind in ("submit", "status"):
        assert 0 < figures[f"{kind}-p50"] <= figures[f"{kind}-p99"] < 10_000
    assert 0 < figures["alone-p50"] < 10_000
    assert 0 < figures["once-seconds"] < 60
    assert figures["once"] == 0
    assert 200 < figures["waiting"] < 20_000


def test_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    """Counting a call costs less than 100 µs, even by a quick run's rough figures."""
    assert main(METRICS, ["--quick", "--json", "-"]) == 0
    (table,) = read(capsys.readouterr().out).tables
    assert -10 < medians(table, "counting")["cpu"] < 100


@pytest.mark.alone
def test_session_flood() -> None:
    """A client leaves less memory in a stateless replica than in a server with sessions, and none is refused."""
    study = measured("session_flood", "--only", "stateless,unbounded", "--seconds", "2")
    flood = study.table("flood")
    stateless, unbounded = medians(flood, "stateless"), medians(flood, "unbounded")
    for figures in (stateless, unbounded):
        assert (figures["refused"], figures["errors"]) == (0, 0)
        assert figures["admitted"] > 0
        assert 20 < figures["memory_before"] <= figures["memory_after"] < 400
        assert 0 < figures["p50"] <= figures["p99"] < 60_000
    assert stateless["kept"] < unbounded["kept"]
    long = medians(study.table("long"), "echo")
    assert long["requests"] == 8_000
    assert 20 < long["memory_tenth"] < long["memory_end"] + 5 < 400


@pytest.mark.alone
def test_transports() -> None:
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
        assert 0 < figures.get("cpu", 100) < 1_000_000
        assert 30 < figures.get("rss_n", 100) < 1_000
    assert table.spread("stdio-fresh", "rss_n").median > 1.3 * table.spread("stdio-kept", "rss_n").median
