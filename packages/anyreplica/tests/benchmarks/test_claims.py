"""The claims of docs/explanation/benchmarks.md, compared with the figures in `benchmarks/figures/`.

The floor is the barest ASGI app that gives the same answer.
"""

import pytest

from benchmarks.book import TEXT, study
from benchmarks.study import Spread
from conftest import ROOT


def _claimed(sentence: str) -> None:
    """Check that the page has the sentence that a test compares."""
    assert sentence in TEXT.read_text()


def _spread(name: str, table: str, row: str, column: str) -> Spread:
    return study(name).table(table).spread(row, column)


def _median(name: str, table: str, row: str, column: str) -> float:
    return _spread(name, table, row, column).median


def test_an_echo() -> None:
    """An echo costs less than twice the CPU time of the floor.

    With an API key, a rate limit and an audit log, an echo costs less than three times as much as the floor.
    """
    _claimed("An echo costs less than twice the CPU time of the floor, in both protocol families.")
    _claimed("An API key, a rate limit and an audit log bring an echo to less than three times the floor.")
    assert _median("exchange", "cost", "echo", "ratio") < 2
    assert _median("exchange", "cost", "echo-2026", "ratio") < 2
    assert _median("exchange", "cost", "secured", "ratio") < 3


def test_the_fastmcp_path() -> None:
    """The FastMCP path costs at least four times the floor."""
    _claimed("A call on the FastMCP path costs at least four times as much as the floor")
    assert _median("exchange", "cost", "fastmcp-path", "ratio") >= 4


def test_memory_of_calls() -> None:
    """The memory grows by less than 2 MB over 200,000 calls."""
    _claimed("The memory grows by less than 2 MB over 200,000 calls.")
    assert _median("exchange", "process", "memory-growth", "figure") < 2


@pytest.mark.parametrize("suffix", ["", "_2026"])
def test_other_sdks(suffix: str) -> None:
    """A call costs the template less than half of the Go SDK's CPU time, and more than the Rust SDK's.

    It costs at most a tenth of the CPU time of FastMCP.
    """
    _claimed("A call costs this template less than half of the CPU time that the official Go SDK needs, in both")
    _claimed("The official Rust SDK needs less CPU time than this template.")
    _claimed("FastMCP without this project needs at least ten times as much CPU time as this template.")
    assert _median("peers", "costs", "go", f"ours{suffix}") > 2
    assert _median("peers", "costs", "rust", f"ours{suffix}") < 1
    assert _median("peers", "costs", "fastmcp", f"ours{suffix}") >= 10


def test_transports() -> None:
    """Five clients of one HTTP server need less memory than over stdio and connect faster."""
    _claimed("five clients need less than half of the memory that they need with one stdio process each.")
    _claimed("They also connect at least ten times faster.")
    memory, connect = (
        {row: _median("transports", "transports", row, column) for row in ("tcp", "stdio-fresh")}
        for column in ("rss_n", "connect")
    )
    assert memory["tcp"] < memory["stdio-fresh"] / 2
    assert connect["tcp"] <= connect["stdio-fresh"] / 10


def test_cpu_time_of_transports() -> None:
    """A call over TCP costs this project's server less than a call over stdio costs FastMCP's."""
    _claimed("A call over TCP costs this project's server less CPU time than a call over stdio costs FastMCP's server.")
    tcp = _median("transports", "transports", "tcp", "cpu")
    assert all(tcp < _median("transports", "transports", row, "cpu") for row in ("stdio-fresh", "stdio-kept"))


def test_asgi_servers() -> None:
    """uvicorn with the template's options needs the least CPU time."""
    _claimed("A call needs the least CPU time under uvicorn with the options of this template.")
    rows = [row for row in study("asgi_servers").table("servers").rows if row.figures]
    assert min(rows, key=lambda row: row.figures["cpu"].median).name == "template"
    assert len(rows) >= 4


def test_clients_that_never_close() -> None:
    """A client that never closes its session leaves more than 10 kB, and a client without a session less than 1 kB.

    Limits of sessions bound the memory, but then the server refuses clients.
    """
    _claimed("leaves more than 10 kB in a server with sessions, and less than 1 kB in a stateless replica.")
    _claimed("A stateless replica refuses none of these clients.")
    _claimed("Limits of sessions bound the memory, but the server then refuses clients.")
    for row in ("unbounded", "default", "bounded"):
        assert _median("session_flood", "flood", row, "kept") > 10
    assert _median("session_flood", "flood", "stateless", "kept") < 1
    assert _spread("session_flood", "flood", "stateless", "refused").max == 0
    assert _median("session_flood", "flood", "bounded", "refused") > 0
    bounded, unbounded = (_median("session_flood", "flood", row, "memory_after") for row in ("bounded", "unbounded"))
    assert bounded < unbounded


def test_a_million_calls() -> None:
    """The memory of a stateless replica grows by less than 2 MB over the second half of a million calls."""
    _claimed("Over the second half of a million calls, the memory of a stateless replica grows by less than 2 MB.")
    assert _median("session_flood", "long", "echo", "requests") >= 1_000_000
    half, end = (_median("session_flood", "long", "echo", f"memory_{when}") for when in ("half", "end"))
    assert end - half < 2


@pytest.mark.parametrize("row", ["stateless", "stateless-2026"])
def test_stateless_replicas(row: str) -> None:
    """Stateless replicas answer every call, lose no call by an update, and few calls by a kill."""
    _claimed("Stateless replicas answer every call while all replicas run, and an update loses no call.")
    _claimed("the calls that the replica has in flight: fewer than 10 here.")
    assert _spread("modes", "modes", row, "success").min == 100
    assert _spread("modes", "modes", row, "update_calls").max == 0
    assert _spread("modes", "modes", row, "kill_calls").max < 10


def test_sessions() -> None:
    """Sessions need affinity, and even with affinity an update and a kill lose sessions."""
    _claimed("Sessions without affinity get fewer than half of their calls answered.")
    _claimed("With affinity, an update and a kill lose sessions.")
    assert _median("modes", "modes", "sessions", "success") < 50
    assert all(_spread("modes", "modes", "affinity", f"{event}_sessions").min > 0 for event in ("update", "kill"))


def test_scaling() -> None:
    """Four replicas answer three times the calls of one replica, at about the same CPU time per call."""
    _claimed("Four replicas answer at least three times as many calls as one replica.")
    _claimed("The CPU time per call does not grow by more than a quarter with the number of replicas.")
    assert 4 * _median("scaling", "scaling", "4", "efficiency") / 100 >= 3
    one = _median("scaling", "scaling", "1", "cpu")
    assert all(_median("scaling", "scaling", row, "cpu") <= 1.25 * one for row in ("2", "3", "4"))


def test_the_load_test() -> None:
    """The load test agrees with wrk for a slow tool, and one core sends 8,000 requests per second."""
    _claimed(
        "For a tool that takes 10 ms, the load test reports a rate and a median latency within 10 percent of wrk's"
    )
    _claimed("One core of the load test can send at least 8,000 requests per second.")
    assert all(_median("generators", "targets", row, "figure") <= 10 for row in ("slow-rate", "slow-p50"))
    assert 1e6 / _median("generators", "targets", "cpu", "figure") >= 8_000


def test_jobs() -> None:
    """No job is lost or run twice, and a status request is fast."""
    _claimed("None of 5,000 jobs is lost or run twice.")
    _claimed("A status request takes less than 3 ms at the median.")
    rows = {row.name: row.title for row in study("jobs").table("jobs").rows}
    assert "5,000 jobs" in rows["once"]
    assert _spread("jobs", "jobs", "once", "figure").max == 0
    assert _median("jobs", "jobs", "status-p50", "figure") < 3


def test_questions() -> None:
    """A question costs less than on FastMCP's server; through Redis it takes less than 5 ms."""
    _claimed("in less time than on FastMCP's own server with sessions, and the question takes less CPU time.")
    _claimed("less than 5 ms at the median, and at most five times the CPU time.")
    for column in ("p50", "cpu"):
        assert _median("asking", "questions", "one", column) < _median("asking", "questions", "stateful", column)
    assert _median("asking", "questions", "two", "p50") < 5
    assert _median("asking", "questions", "two", "cpu") <= 5 * _median("asking", "questions", "one", "cpu")


def test_counting() -> None:
    """Counting a call for /metrics is cheap."""
    _claimed("Counting adds less than 2 µs of CPU time to a call.")
    assert _median("metrics", "counting", "counting", "cpu") < 2


@pytest.mark.parametrize(
    "name", ["exchange", "peers", "transports", "session_flood", "modes", "scaling", "jobs", "asking"]
)
def test_figures_are_complete(name: str) -> None:
    """The committed figures are those of a whole run without failures."""
    assert not study(name).quick
    assert study(name).failures == []


def test_readme_has_the_measured_figures() -> None:
    """README's table has the CPU time of an echo, its ratio to the floor, and the ratio of FastMCP's own server."""
    readme = (ROOT / "README.md").read_text()
    cpu, ratio = (_median("exchange", "cost", "echo", column) for column in ("cpu", "ratio"))
    assert f"| {cpu:.1f} µs; {ratio:.1f} times as much (" in readme
    assert f"| {_median('peers', 'costs', 'fastmcp', 'ours'):.0f} times as much as with anyreplica |" in readme


def test_readme_has_the_figure_of_a_rolling_update() -> None:
    """README's number of lost calls is in the table of measured events, too."""
    assert "| 0 of 1,661 |" in (ROOT / "README.md").read_text()
    events = (ROOT / "docs" / "explanation" / "failures.md").read_text()
    (update,) = [line for line in events.splitlines() if line.startswith("| rolling update of three replicas")]
    assert "0 of 1,661" in update


def test_the_autoscaler() -> None:
    """On a day, the autoscaler is near the optimum. After a step, it is overloaded for a shorter time than by CPU."""
    _claimed(
        "the autoscaler uses at most 1.15 times the replica hours of an ideal autoscaler that knows the load in advance"
    )
    _claimed("at most 0.1 % of the seconds are overloaded")
    _claimed("uses more replica hours on this day")
    _claimed("After a sudden rise of the load, it is overloaded for more than ten times as many seconds.")
    assert _spread("autoscale", "day", "autoscale", "ratio").max <= 1.15
    assert _spread("autoscale", "day", "autoscale", "overloaded").max <= 0.1
    assert _median("autoscale", "day", "cpu", "hours") > _median("autoscale", "day", "autoscale", "hours")
    ours, cpu = (_median("autoscale", "step", row, "overloaded") for row in ("autoscale", "cpu"))
    assert cpu > 10 * ours
