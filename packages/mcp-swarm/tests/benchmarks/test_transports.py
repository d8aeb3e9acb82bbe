"""The study of transports, as a person runs it, and what it says of figures."""

import argparse
import asyncio
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import interruption, transports
from benchmarks.load import LoadError
from benchmarks.machine import this_machine
from benchmarks.process import ProcessError
from benchmarks.study.command import Run
from benchmarks.study.study import Row, Table, read, row_of
from benchmarks.transport.by_hand import over_http, over_pipes
from benchmarks.transport.caller import latencies
from benchmarks.transport.cases import TRANSPORTS, Case, Transport
from benchmarks.transport.course import Course
from benchmarks.transport.in_memory import InMemory
from benchmarks.transport.place import Place
from benchmarks.transport.verdict import Verdict
from benchmarks.wire import Family
from conftest import run

script = partial(run, sys.executable, "-m", "benchmarks.transports")

_NEEDED = ("rss_n", "connect", "cpu", "p50", "mean_n", "hand_p50", "fastmcp_cpu", "share")
_NAMES = ["memory", "stdio-fresh", "stdio-kept", "tcp-stock", "tcp", "unix"]


@pytest.mark.alone
def test_it_runs() -> None:
    """Every transport, with figures that can be; the JSON is alone on stdout."""
    brief = ("--quick", "--rounds", "1", "--calls", "3", "--concurrency", "2", "--era", Family.HANDSHAKE.value)
    done = script(*brief, "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    study = read(done.stdout)
    assert study.failures == study.skipped == []
    whole, _, sizes, client, more = study.findings.tables
    assert [row.name for row in whole.rows] == _NAMES
    for row in whole.rows:
        figures = {name: spread.median for name, spread in row.figures.items()}
        served = set() if row.name == "memory" else {"cpu", "rss_n"}
        connects = set() if row.name == "stdio-kept" else {"connect"}
        assert set(figures) == {"start", "p50", "p99", "mean_n"} | served | connects
        assert 0 < figures["p50"] <= figures["p99"] < 60_000
        assert 0 < figures["start"] < 120_000
        assert 10 < figures.get("cpu", 100) < 1_000_000
        assert 30 < figures.get("rss_n", 100) < 1_000
    fresh, kept = (whole.median(name, "rss_n") for name in ("stdio-fresh", "stdio-kept"))
    assert fresh is not None
    assert kept is not None
    assert fresh > 1.3 * kept, "two processes take more than one"
    assert [row.name for row in sizes.rows] == [row.name for row in client.rows] == [_NAMES[0], *_NAMES[2:]]
    assert all(len(row.figures) == len(sizes.columns) for row in sizes.rows)
    assert all(len(row.figures) == len(client.columns) for row in client.rows[1:])
    assert len(more.rows) == len(_NAMES)
    assert study.findings.sentence.startswith("It ")
    assert study.findings.versions["mcp"]


@pytest.mark.alone
@pytest.mark.parametrize(
    "transport",
    [each for each in TRANSPORTS if each.name in ("memory", "stdio-kept", "unix")],
    ids=lambda each: each.name,
)
def test_the_stateless_era(transport: Transport, tmp_path: Path) -> None:
    """The course refuses a client that speaks another one."""
    with transport.open(min(os.sched_getaffinity(0)), tmp_path) as place:
        figures = interruption.run(Course(2, 2).run(place, Family.STATELESS, whole=False))
    assert figures["start"] > figures["p50"] > 0


def test_a_case_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its reason in the table; the others are measured, and nothing is concluded."""

    def broken(_core: int, _folder: Path) -> nullcontext[Place]:
        raise ProcessError("no such server")

    works = Transport("memory", "works", lambda _core, _folder: nullcontext(InMemory()))
    cases = [Case(Transport("tcp", "broken", broken), Family.HANDSHAKE), Case(works, Family.HANDSHAKE)]
    monkeypatch.setattr(transports, "CASES", cases)
    options = argparse.Namespace(quick=True, calls=2, concurrency=2, family=None)
    steps: list[str] = []
    findings = transports.SCRIPT.measure(Run(options, 2, this_machine(), tmp_path, steps.append))
    failed, measured = findings.tables[0].rows
    assert (failed.figures, failed.failure) == ({}, "ProcessError: no such server")
    assert measured.figures["p50"].median > 0
    assert all(not row.failure for table in findings.tables[1:] for row in table.rows)
    assert "nothing follows" in findings.sentence
    assert len(steps) == 4


def _tables(values: dict[tuple[str, str], float]) -> tuple[Table, Table]:
    names = dict.fromkeys(name for name, _ in values)
    rows = [
        row_of(each, each, {column: [value] for (name, column), value in values.items() if name == each})
        for each in names
    ]
    return Table("whole", "", [], rows), Table("client", "", [], [])


_figure = st.floats(0.01, 10_000)


@given(st.fixed_dictionaries({(name, column): _figure for name in _NAMES for column in _NEEDED}))
def test_the_words_follow_from_the_figures(values: dict[tuple[str, str], float]) -> None:
    """Whichever way they turn out."""
    sentence, meaning = Verdict(*_tables(values), 7).words()
    less = [values["tcp", name] < values["stdio-fresh", name] for name in ("rss_n", "connect")]
    assert sentence.startswith("It holds: ") == all(less)
    assert sentence.startswith("It does not hold: ") == (not any(less))
    assert ("So: HTTP for a server that many share" in meaning) == all(less)
    stdio, http = values["stdio-kept", "p50"], values["tcp-stock", "p50"]
    if "stdio is quicker" in meaning:
        assert stdio < http
    if "HTTP is quicker" in meaning:
        assert http < stdio


@pytest.mark.parametrize(
    ("stdio", "says"), [(1.0, "HTTP takes 2 times as long"), (1.9, "about as quick"), (4.0, "HTTP is quicker")]
)
def test_one_client(stdio: float, says: str) -> None:
    """Within ten percent they are alike."""
    values = dict.fromkeys([(name, column) for name in _NAMES for column in _NEEDED], 2.0)
    _, meaning = Verdict(*_tables(values | {("stdio-kept", "p50"): stdio}), 5).words()
    assert says in meaning


def test_nothing_follows_from_half_of_it() -> None:
    """One row without figures."""
    whole, client = _tables(dict.fromkeys([(name, column) for name in _NAMES for column in _NEEDED], 2.0))
    rows = [Row(row.name, "", failure="down") if row.name == "unix" else row for row in whole.rows]
    assert "nothing follows" in Verdict(replace(whole, rows=rows), client, 5).words()[0]


@given(st.lists(st.floats(0.001, 1e5), min_size=1))
def test_latencies(took: list[float]) -> None:
    """In order, and the mean among them."""
    figures = latencies(sorted(took))
    assert min(took) <= figures["p50"] <= figures["p95"] <= figures["p99"] <= max(took)
    assert min(took) * 0.999 <= figures["mean"] <= max(took) * 1.001


_RIGHT = b'{"id":1,"result":{"structuredContent":{"result":"hello"},"isError":false}}'
_WRONG = _RIGHT.replace(b"hello", b"bye")


def _http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Answering:
    """A writer: what is written to it is answered to the reader with the next of some replies, at last with the end."""

    def __init__(self, reader: asyncio.StreamReader, replies: list[bytes]) -> None:
        self._reader = reader
        self._replies = replies

    def write(self, request: bytes) -> None:
        if b"notifications/" in request:
            return
        if self._replies:
            self._reader.feed_data(self._replies.pop(0))
        if not self._replies:
            self._reader.feed_eof()


async def _calls(family: Family, replies: list[bytes], *, http: bool) -> None:
    reader = asyncio.StreamReader()
    writer = cast("asyncio.StreamWriter", _Answering(reader, replies))
    hand = over_http(reader, writer, family) if http else await over_pipes(reader, writer, family)
    while replies:
        await hand.call()


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([_http(_RIGHT), _http(_WRONG)], "result is 'bye', not 'hello'"),
        ([_http(_RIGHT, "503 Service Unavailable")], "HTTP 503"),
        ([_http(_RIGHT)[:-1]], "closed the connection"),
    ],
)
def test_wrong_replies_over_http(replies: list[bytes], says: str) -> None:
    """Each is read, those after the first, too."""
    with pytest.raises(LoadError, match=says):
        asyncio.run(_calls(Family.STATELESS, replies, http=True))


@pytest.mark.parametrize(
    ("replies", "says"),
    [([b"{}\n", _WRONG + b"\n"], "result is 'bye', not 'hello'"), ([b"{}"], "closed the connection")],
)
def test_wrong_replies_over_pipes(replies: list[bytes], says: str) -> None:
    """A line each, the first of which answers the handshake."""
    with pytest.raises(LoadError, match=says):
        asyncio.run(_calls(Family.HANDSHAKE, replies, http=False))


def test_right_replies() -> None:
    """All are taken, in both forms."""
    asyncio.run(_calls(Family.HANDSHAKE, [_http(_RIGHT)] * 3, http=True))
    asyncio.run(_calls(Family.HANDSHAKE, [b"{}\n", _RIGHT + b"\n", _RIGHT + b"\n"], http=False))
    asyncio.run(_calls(Family.STATELESS, [_RIGHT + b"\n"] * 2, http=False))
