"""The page docs/explanation/benchmarks.md: its form, and its claims and README's, which the figures must show."""

import importlib.util
import re
from collections.abc import Callable

import pytest

from benchmarks import book
from benchmarks.book import TEXT, study
from benchmarks.study import Spread
from conftest import ROOT

_OURS = ("ours", "ours_2026")
_STATELESS = ("stateless", "stateless-2026")


def _spread(path: str) -> Spread:
    """Return a figure: `study/table/row/column`."""
    name, table, row, column = path.split("/")
    return study(name).table(table).spread(row, column)


def _median(path: str) -> float:
    return _spread(path).median


def _uvicorn_needs_least() -> bool:
    rows = [row for row in study("asgi_servers").table("servers").rows if row.figures]
    return len(rows) >= 4 and min(rows, key=lambda row: row.figures["cpu"].median).name == "template"


def _all_jobs_ran_once() -> bool:
    rows = {row.name: row.title for row in study("jobs").table("jobs").rows}
    return "5,000 jobs" in rows["once"] and _spread("jobs/jobs/once/figure").max == 0


_CLAIMS: dict[str, Callable[[], bool]] = {
    "An echo costs less than twice the CPU time of the floor, in both protocol families.": lambda: (
        max(_median(f"exchange/cost/{row}/ratio") for row in ("echo", "echo-2026")) < 2
    ),
    "An API key, a rate limit and an audit log bring an echo to less than three times the floor.": lambda: (
        _median("exchange/cost/secured/ratio") < 3
    ),
    "A call on the FastMCP path costs at least three times as much as the floor": lambda: (
        _median("exchange/cost/fastmcp-path/ratio") >= 3
    ),
    "The memory grows by less than 2 MB over 200,000 calls.": lambda: (
        _median("exchange/process/memory-growth/figure") < 2
    ),
    "A call costs this template less than half of the CPU time that the official Go SDK needs, in both": lambda: (
        min(_median(f"peers/costs/go/{column}") for column in _OURS) > 2
    ),
    "the official Rust SDK needs at least as much CPU time as this template in 2026-07-28, and about": lambda: (
        _median("peers/costs/rust/ours_2026") >= 1 and 0.65 <= _median("peers/costs/rust/ours") < 0.75
    ),
    "answers about as many calls per second as the Rust SDK in 2025-11-25, and more in 2026-07-28.": lambda: (
        0.9 <= _median("peers/costs/ours/rate_all") / _median("peers/costs/rust/rate_all") < 1.1
        and _median("peers/costs/ours/rate_all_2026") > _median("peers/costs/rust/rate_all_2026")
    ),
    "FastMCP without this project needs at least ten times as much CPU time as this template.": lambda: (
        min(_median(f"peers/costs/fastmcp/{column}") for column in _OURS) >= 10
    ),
    "five clients need less than half of the memory that they need with one stdio process each.": lambda: (
        _median("transports/transports/tcp/rss_n") < _median("transports/transports/stdio-fresh/rss_n") / 2
    ),
    "They also connect at least ten times faster.": lambda: (
        _median("transports/transports/tcp/connect") <= _median("transports/transports/stdio-fresh/connect") / 10
    ),
    "over TCP costs this project's server less CPU time than a call over stdio costs FastMCP's server.": lambda: (
        _median("transports/transports/tcp/cpu")
        < min(_median("transports/transports/stdio-fresh/cpu"), _median("transports/transports/stdio-kept/cpu"))
    ),
    "A call needs the least CPU time under uvicorn with the options of this template.": _uvicorn_needs_least,
    "leaves more than 10 kB in a server with sessions, and less than 1 kB in a stateless replica.": lambda: (
        min(_median(f"session_flood/flood/{row}/kept") for row in ("unbounded", "default", "bounded")) > 10
        and _median("session_flood/flood/stateless/kept") < 1
    ),
    "A stateless replica refuses none of these clients.": lambda: (
        _spread("session_flood/flood/stateless/refused").max == 0
    ),
    "Limits of sessions bound the memory, but the server then refuses clients.": lambda: (
        _median("session_flood/flood/bounded/refused") > 0
        and _median("session_flood/flood/bounded/memory_after") < _median("session_flood/flood/unbounded/memory_after")
    ),
    "Over the second half of a million calls, the memory of a stateless replica grows by less than 2 MB.": lambda: (
        _median("session_flood/long/echo/requests") >= 1_000_000
        and _median("session_flood/long/echo/memory_end") - _median("session_flood/long/echo/memory_half") < 2
    ),
    "Stateless replicas answer every call while all replicas run, and an update loses no call.": lambda: (
        min(_spread(f"modes/modes/{row}/success").min for row in _STATELESS) == 100
        and max(_spread(f"modes/modes/{row}/update_calls").max for row in _STATELESS) == 0
    ),
    "the calls that the replica has in flight: fewer than 10 here.": lambda: (
        max(_spread(f"modes/modes/{row}/kill_calls").max for row in _STATELESS) < 10
    ),
    "Sessions without affinity get fewer than half of their calls answered.": lambda: (
        _median("modes/modes/sessions/success") < 50
    ),
    "With affinity, an update and a kill lose sessions.": lambda: (
        min(_spread(f"modes/modes/affinity/{event}_sessions").min for event in ("update", "kill")) > 0
    ),
    "Four replicas answer at least three times as many calls as one replica.": lambda: (
        4 * _median("scaling/scaling/4/efficiency") / 100 >= 3
    ),
    "The CPU time per call does not grow by more than a quarter with the number of replicas.": lambda: (
        max(_median(f"scaling/scaling/{row}/cpu") for row in ("2", "3", "4")) <= 1.25 * _median("scaling/scaling/1/cpu")
    ),
    "(`WORKERS=4`) answers at least as many calls as three replicas, and needs at least a third less": lambda: (
        4 * _median("scaling/scaling/workers-4/efficiency") >= 3 * _median("scaling/scaling/3/efficiency")
        and 3 * _median("scaling/scaling/workers-4/memory") <= 2 * _median("scaling/scaling/4/memory")
    ),
    "a tool that takes 10 ms, the load test reports a rate and a median latency within 10 percent of wrk's": lambda: (
        max(_median(f"generators/targets/{row}/figure") for row in ("slow-rate", "slow-p50")) <= 10
    ),
    "One core of the load test can send at least 8,000 requests per second.": lambda: (
        1e6 / _median("generators/targets/cpu/figure") >= 8_000
    ),
    "None of 5,000 jobs is lost or run twice.": _all_jobs_ran_once,
    "A status request takes less than 3 ms at the median.": lambda: _median("jobs/jobs/status-p50/figure") < 3,
    "in less time than on FastMCP's own server with sessions, and the question takes less CPU time.": lambda: all(
        _median(f"asking/questions/one/{column}") < _median(f"asking/questions/stateful/{column}")
        for column in ("p50", "cpu")
    ),
    "less than 5 ms at the median, and at most five times the CPU time.": lambda: (
        _median("asking/questions/two/p50") < 5
        and _median("asking/questions/two/cpu") <= 5 * _median("asking/questions/one/cpu")
    ),
    "Counting adds less than 2 µs of CPU time to a call.": lambda: _median("metrics/counting/counting/cpu") < 2,
    "at most 1.15 times the replica hours of an ideal autoscaler that knows the load in advance": lambda: (
        _spread("autoscale/day/autoscale/ratio").max <= 1.15
    ),
    "at most 0.1 % of the seconds are overloaded": lambda: _spread("autoscale/day/autoscale/overloaded").max <= 0.1,
    "uses more replica hours on this day": lambda: (
        _median("autoscale/day/cpu/hours") > _median("autoscale/day/autoscale/hours")
    ),
    "After a sudden rise of the load, it is overloaded for more than ten times as many seconds.": lambda: (
        _median("autoscale/step/cpu/overloaded") > 10 * _median("autoscale/step/autoscale/overloaded")
    ),
}
"""The sentences of the page, with what the figures must show."""


@pytest.mark.parametrize("claim", _CLAIMS)
def test_the_figures_show_what_the_page_claims(claim: str) -> None:
    """The page has the sentence, and the committed figures show that it is true."""
    assert claim in TEXT.read_text()
    assert _CLAIMS[claim]()


@pytest.mark.parametrize(
    "name", ["exchange", "peers", "transports", "session_flood", "modes", "scaling", "jobs", "asking"]
)
def test_figures_are_complete(name: str) -> None:
    """The committed figures are those of a whole run without failures."""
    assert not study(name).quick
    assert study(name).failures == []


def test_readme_has_the_measured_figures() -> None:
    """README has the lost calls of the table of measured events. Its first table has no CPU time: this page has it."""
    readme = (ROOT / "README.md").read_text()
    (table,) = re.findall(r"^\| what \| figure \| command \|\n(?:\|.*\n)+", readme, re.MULTILINE)
    assert "| 0 of 1,661 |" in table
    assert "CPU" not in table
    events = (ROOT / "docs" / "explanation" / "failures.md").read_text()
    update = next(line for line in events.splitlines() if line.startswith("| rolling update of three replicas"))
    assert "0 of 1,661" in update


def test_this_page_is_up_to_date() -> None:
    """The page has the committed figures."""
    assert book.main(["--check"]) == 0


def test_each_study_has_a_section() -> None:
    """A section has one command that exists, tables and one machine line of its study, or the record."""
    _, *sections = TEXT.read_text().split("\n### ")
    counted = [section for section in sections if "{{ record instructions }}" in section]
    assert len(counted) == 1
    assert "make bench-instructions\n" in counted[0]
    sections.remove(counted[0])
    for name, section in zip(book.STUDIES, sections, strict=True):
        assert re.findall(r"(?:python -m benchmarks\.|make bench-)(\w+)", section) == [name]
        assert importlib.util.find_spec(f"benchmarks.{name}")
        assert set(re.findall(r"\{\{ table (\w+) ", section)) == {name}
        assert re.findall(r"\{\{ machine (\w+) ", section) == [name]
