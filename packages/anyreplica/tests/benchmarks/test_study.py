"""How a study loads servers, compares replies, measures in rounds, writes its figures and ends."""

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.command import Missing, Run, Script, main
from benchmarks.expectation import difference
from benchmarks.load import Load, LoadError
from benchmarks.machine import choose_cores, this_machine
from benchmarks.progress import progress
from benchmarks.reply import Reply, UnreadableReply, parse
from benchmarks.rounds import Rounds
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO
from benchmarks.study import Column, Row, Spread, Study, Table, read
from benchmarks.tables import cells, figure, number
from tests.loadtest.fake import Fake, fake

TABLE = Table(
    "calls",
    "Calls of a tool",
    [Column("p50", "p50", "ms"), Column("rate", "calls", "/s"), Column("target", "at most", "ms", limits="p50")],
    [
        Row.of("stdio", "stdio, <a process>", {"p50": [19.6, 18, 22], "rate": [51], "target": [19.6]}),
        Row.of("http", "HTTP | TCP", {"p50": [0.214], "rate": [4231, 3900, 5012], "target": [0.2]}),
        Row("granian", "granian", skipped="granian is not installed: pip install granian"),
        Row("broken", "a broken one", failure="wrong reply: HTTP 500 <b>"),
    ],
)

RUN: dict[str, Any] = {"command": "python -m benchmarks.example --json x.json", "began": "2026-11-22T10:00:00+00:00"}
RUN |= {"seconds": 61, "machine": this_machine(), "quick": False, "rounds": 3, "versions": {"uvicorn": "0.54"}}
STUDY = Study(name="example", **RUN, tables=[TABLE])


def test_a_study_is_read_as_it_was_written() -> None:
    """JSON keeps all members of a study."""
    assert read(json.dumps(asdict(STUDY))) == STUDY
    with pytest.raises(ValueError, match="tables"):
        read('{"name": "example"}')


def test_a_spread() -> None:
    """The median of an even number of values is between the two middle values."""
    assert Spread.of([4, 1, 3, 2]) == Spread(2.5, 1, 4)
    assert Spread.of([7]) == Spread(7, 7, 7)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_a_spread_is_ordered(values: list[float]) -> None:
    """Rounding keeps the order of the smallest, the middle and the largest value."""
    spread = Spread.of(values)
    assert spread.min <= spread.median <= spread.max


def test_targets() -> None:
    """A target is missed if the median of the limited column is larger."""
    assert TABLE.missed == ["HTTP | TCP: 0.214, target 0.2"]
    assert STUDY.failures == ["a broken one: wrong reply: HTTP 500 <b>"]
    assert STUDY.skipped == ["granian: granian is not installed: pip install granian"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123, "0.0012"), (0.2, "0.200"), (19.64, "19.6"), (100, "100"), (1234.5, "1,234"), (9.999, "10.00")],
)
def test_numbers(value: float, text: str) -> None:
    """A number has three significant digits, or all digits before the point."""
    assert number(value) == text


def test_cells() -> None:
    """A row without figures has its reason; a target has a mark."""
    rows = [cells(row, TABLE.columns) for row in TABLE.rows]
    assert rows[0] == ["stdio, <a process>", "19.6 (18–22)", "51", "✓ 19.6"]
    assert rows[1][3] == "✗ 0.2"
    assert rows[2][1] == "skipped: granian is not installed: pip install granian"
    assert rows[3][1] == "✗ wrong reply: HTTP 500 <b>"
    assert figure(Spread(5, 4, 6.5)) == "5 (4–6.50)"


@pytest.mark.parametrize(
    ("cores", "siblings", "chosen"),
    [([0, 1], {1}, (1, 0)), ([0, 1], {0, 1}, (1, 0)), ([2, 3, 4, 5], {2, 5}, (5, 3)), ([6], {6}, (6, 6))],
)
def test_cores(cores: list[int], siblings: set[int], chosen: tuple[int, int]) -> None:
    """Server and load run on different physical cores where possible."""
    assert choose_cores(cores, lambda _: siblings) == chosen


@pytest.mark.parametrize(
    ("expected", "actual", "says"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": 1}, {"b": 2}, "reply has no 'a'"),
        ({"a": {"b": [{"c": "x"}]}}, {"a": {"b": [{"c": "y"}]}}, "reply.a.b[0].c is 'y', not 'x'"),
        ([1, 2], [1, 2, 3], "reply has 3 items, not 2"),
        ([1, 2], [1, 2], ""),
        (1, True, "reply is True, not 1"),
        (1, 1.0, "reply is 1.0, not 1"),
        ({}, [], "reply is [], not {}"),
        (None, None, ""),
        ("x", "y" * 500, f"reply is '{'y' * 119}…, not 'x'"),
    ],
)
def test_difference(expected: Any, actual: Any, says: str) -> None:
    """The first difference is named with its place."""
    assert difference(expected, actual) == says


@dataclass(frozen=True)
class _Case:
    name: str

    @property
    def title(self) -> str:
        return f"the {self.name}"


A, B, C = _Case("a"), _Case("b"), _Case("c")


def test_rounds(tmp_path: Path) -> None:
    """Every second round has the reverse order, and a case that fails is left out of the following rounds."""
    calls: list[str] = []

    def measure(case: _Case) -> dict[str, float]:
        calls.append(case.name)
        if case is B:
            raise LoadError("no reply")
        return {"rate": len(calls)}

    rounds = Rounds([A, B, C])
    with progress(Console(), 0) as step:
        run = Run(argparse.Namespace(), False, 2, 1.0, this_machine(), tmp_path, step, {})
        rounds.measure(run, measure)
    assert calls == ["a", "b", "c", "c", "a"]
    assert rounds.values["a"] == {"rate": [1, 5]}
    assert rounds.ratios("c", "a", "rate") == [3, 4 / 5]
    a, b, _ = rounds.rows(lambda case: {"more": [1]} if case is A else {})
    assert a == Row.of("a", "the a", {"rate": [1, 5], "more": [1]})
    assert b == Row("b", "the b", failure="no reply")


def test_skipped() -> None:
    """A case that was not tried has its reason in the row."""
    rounds = Rounds([A])
    rounds.skipped["a"] = "not installed"
    assert rounds.rows() == [Row("a", "the a", skipped="not installed")]


_GOOD = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:1])
_MISSED = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:2])


@pytest.mark.parametrize(
    ("found", "arguments", "code", "said"),
    [
        (_GOOD, ["--quick", "--check"], 0, "1 round. Quick run: the figures are rough."),
        (_GOOD, ["--check"], 0, "19.6 (18–22)"),
        (_MISSED, [], 0, "✗ missed: HTTP | TCP: 0.214, target 0.2"),
        (_MISSED, ["--check"], 1, "✗ missed: HTTP | TCP: 0.214, target 0.2"),
        (Missing("wrk is not installed"), [], 2, "example: wrk is not installed\n"),
        (LoadError("no reply"), [], 3, "✗ failed: no reply\n"),
        (TABLE, [], 3, "✗ failed: a broken one: wrong reply: HTTP 500 <b>"),
        (TABLE, [], 3, "19.6 (18–22)"),
    ],
)
def test_the_exit_code(
    capsys: pytest.CaptureFixture[str], found: Table | Exception, arguments: list[str], code: int, said: str
) -> None:
    """The exit code says whether there is a result. Only `--check` changes it because of a missed target."""

    def measure(_: Run) -> list[Table]:
        if isinstance(found, Exception):
            raise found
        return [found]

    script = Script("example", "", rounds=(1, 4), seconds=(0.5, 2), packages=(), measure=measure, pinned=False)
    assert main(script, arguments) == code
    assert said in "".join(capsys.readouterr())


SCENARIO = replace(ECHO, expected={"id": 1})
RIGHT = b'{"id":1}'


def _http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ndate: now\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _sample(*answers: bytes, checked: int = 1) -> Sample:
    """Measure a server that sends these answers one after the other, and then repeats the last one."""

    async def answer(_: Fake, number: int, __: object) -> bytes:
        return answers[min(number, len(answers)) - 1]

    async with fake(answer) as server, Load(server.port, SCENARIO, 1) as load:
        await load.run_replies(checked, within=5)
        return await load.measure(0.2, lambda: 0.5)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_http(b'{"id":2}'), "wrong reply: reply.id is 2, not 1"),
        (_http(b"hello"), "wrong reply: no JSON: b'hello'"),
        (_http(RIGHT, "503 Busy"), "wrong reply: HTTP 503: '{\"id\":1}'"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n5\r\n", "no Content-Length (an event stream?)"),
        (b"", "the server closed a connection"),
    ],
)
def test_the_warm_up_ends_with_a_wrong_reply(answer: bytes, says: str) -> None:
    """A wrong reply in the warm-up ends the load with a reason."""
    with pytest.raises(LoadError) as caught:
        asyncio.run(_sample(_http(RIGHT), answer, checked=3))
    assert says in str(caught.value)


def test_wrong_replies_are_counted_while_measuring() -> None:
    """During the measurement, a reply with a new body is compared, and only a wrong reply counts as an error."""
    other = orjson.dumps({"id": 1, "more": [1, 2]})
    sample = asyncio.run(_sample(_http(RIGHT), _http(RIGHT), _http(other), _http(RIGHT, "500 Oh"), _http(RIGHT)))
    assert (sample.errors, sample.first_error) == (1, "wrong reply: HTTP 500: '{\"id\":1}'")


def test_a_reply_in_pieces() -> None:
    """A reply is complete with its last byte, and not before."""
    whole = _http(RIGHT)
    assert all(parse(whole[:length]) is None for length in range(len(whole)))
    assert parse(whole) == Reply(b"200", RIGHT)
    with pytest.raises(UnreadableReply, match="more than one reply"):
        parse(whole * 2)
    with pytest.raises(UnreadableReply, match="no Content-Length"):
        parse(b"HTTP/1.1 200 OK\r\nx-content-length: 5\r\n\r\n12345")


def test_a_reply_in_chunks() -> None:
    """A reply in chunks ends with the empty chunk. The body of an event stream is the data of its event."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"event: message\ndata: " + RIGHT + b"\n\n"
    for body in (RIGHT, event):
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:3], body[3:], b""))
        whole = head + chunks
        assert all(parse(whole[:length]) is None for length in range(len(whole)))
        assert parse(whole) == Reply(b"200", RIGHT)
        with pytest.raises(UnreadableReply, match="more than one reply"):
            parse(whole * 2)


def test_a_sample() -> None:
    """A sample has µs per request, requests per second, and exact percentiles in ms."""
    times = [milliseconds * 1_000_000 for milliseconds in range(100, 0, -1)]
    sample = Sample.of(times, errors=0, first_error="", seconds=4, cpu_seconds=0.01)
    assert (sample.requests, sample.p50_ms, sample.p99_ms) == (100, 50, 99)
    assert sample.cpu_us == pytest.approx(100)
    assert sample.per_second == 25
