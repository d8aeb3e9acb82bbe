"""The flood of sessions: its clients, its words, and the script for real."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.flood.cases import NAMES, STATELESS, UNBOUNDED, cases
from benchmarks.flood.course import Course
from benchmarks.flood.crowd import Crowd
from benchmarks.flood.endurance import MINIMAL, Endurance
from benchmarks.flood.good_client import Call, GoodClient
from benchmarks.flood.long_run import long_table
from benchmarks.flood.messages import WELCOME, echo, echoed, goodbye, initialized
from benchmarks.flood.newcomers import newcomers
from benchmarks.flood.sizes import SHORT
from benchmarks.flood.tables import beside_table, flood_table, plots
from benchmarks.flood.words import meaning, sentence
from benchmarks.process import Process
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO, FLOOR
from benchmarks.session_flood import SCRIPT
from benchmarks.study.command import main
from benchmarks.study.study import Row, read
from conftest import run, until

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.session_flood")


@given(st.from_regex(r"[!-~]{1,40}", fullmatch=True))
def test_a_request_names_its_session(session: str) -> None:
    """Once, in its head; the rest is as without one."""
    header = b"Mcp-Session-Id: " + session.encode() + b"\r\n"
    for message in (partial(echo, identity=7), initialized):
        with_one, without = message(session), message("")
        assert with_one.replace(header, b"", 1) == without
        assert with_one.index(header) < with_one.index(b"\r\n\r\n")
        head, _, body = with_one.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}\r\n".encode() in head + b"\r\n"
    assert goodbye(session).startswith(b"DELETE /mcp HTTP/1.1\r\n" + header)


def test_a_crowd_counts() -> None:
    """Clients that are let in, and those that are refused."""
    answers = [_reply(WELCOME, session="s")] * 5

    async def flood() -> Crowd:
        async with _answering(lambda _: answers.pop() if answers else _http(b"full", 503)) as port:
            return await _crowd(port, lambda crowd: crowd.refused >= 3, sessions=True)

    crowd = asyncio.run(flood())
    assert (crowd.let_in, crowd.wrong) == (5, 0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n", "wrong reply: HTTP 500"),
        (b"", "connection closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "wrong reply: reply has no 'jsonrpc'"),
    ],
)
def test_a_crowd_tells_what_is_wrong(answer: bytes, says: str) -> None:
    """Of the first client that fared so."""

    async def flood() -> Crowd:
        async with _answering(lambda _: answer) as port:
            return await _crowd(port, lambda crowd: crowd.wrong >= 2, sessions=False)

    crowd = asyncio.run(flood())
    assert crowd.first_wrong.startswith(says)
    assert crowd.let_in == 0


@pytest.mark.parametrize(("expected", "given_one"), [(True, False), (False, True)])
def test_a_session_that_should_not_be(expected: bool, given_one: bool) -> None:
    """A server that is flooded in the wrong mode is noticed."""

    async def flood() -> Crowd:
        async with _answering(lambda _: _reply(WELCOME, session="s" if given_one else "")) as port:
            return await _crowd(port, lambda crowd: crowd.wrong > 0, sessions=expected)

    assert "session" in asyncio.run(flood()).first_wrong


def test_clients_keep_their_own_connections() -> None:
    """Each makes one, and leaves it open until all leave."""

    async def flood() -> tuple[int, int]:
        async with _answering(lambda _: _reply(WELCOME)) as port:
            crowd = Crowd(port, sessions=False, own_connections=True, at_once=2)
            await _until(crowd, lambda: crowd.let_in >= 10)
            still = sum(connection.open for connection in crowd._kept)
            crowd.leave()
            return crowd.let_in, still

    let_in, still = asyncio.run(flood())
    assert let_in == still


def test_a_good_client_begins_anew() -> None:
    """When its session is unknown, as the protocol says; that call counts as an error, those after it don't."""
    sessions: list[bytes] = []

    ids: list[int] = []

    def answer(request: bytes) -> bytes:
        if b'"method":"initialize"' in request:
            sessions.append(b"session-%d" % len(sessions))
            return _reply(WELCOME, session=sessions[-1].decode())
        if b"notifications/initialized" in request:
            return _http(b"", 202)
        ids.append(orjson.loads(request.partition(b"\r\n\r\n")[2])["id"])
        known = b"Mcp-Session-Id: session-1\r\n" in request
        return _reply(echoed(ids[-1])) if known else _http(b"Session not found", 404)

    async def call() -> list[Call]:
        async with _answering(answer) as port:
            client = GoodClient(port, per_second=20, sessions=True)
            await client.enter()
            calling = asyncio.ensure_future(client.keep_calling())
            await _once(lambda: len(client.calls) >= 4)
            client.stop()
            await calling
            return client.calls

    calls = sorted(asyncio.run(call()), key=lambda each: each.due)
    assert [bool(each.error) for each in calls[:4]] == [True, False, False, False]
    assert "HTTP 404" in calls[0].error
    assert len(sessions) == 2
    assert len(set(ids)) == len(ids)
    assert all(each.ms > 0 for each in calls)


_COURSE = Course(
    moments=[],
    began=10,
    ended=20,
    start=5,
    before_mb=100,
    after_mb=900,
    let_in=20_000,
    refused=0,
    wrong=0,
    first_wrong="",
    cpu_seconds=9,
    calls=[Call(float(second), 2 if second < 10 else 16, "") for second in range(5, 25)],
    turned_away=0,
    full=False,
)


@given(st.lists(st.floats(0, 30), max_size=50))
def test_each_call_is_of_one_phase(due: list[float]) -> None:
    """Before, during or after the flood."""
    course = replace(_COURSE, calls=[Call(each, 1, "") for each in due])
    assert sorted(course.before + course.during + course.after, key=id) == sorted(course.calls, key=id)


def _findings(stateless: Course, end_mb: float) -> tuple[str, str]:
    every = [case for case in cases(SHORT) if case.name in (UNBOUNDED, STATELESS)]
    courses = {UNBOUNDED: [_COURSE], STATELESS: [stateless]}
    rows: dict[str, Row] = {}
    sample = Sample.of([1_000_000], errors=0, first_error="", seconds=1, cpu_seconds=0.99)
    lasting = Endurance(
        {each.name: [sample] for each in (ECHO, MINIMAL, FLOOR)}, [(100, 97), (500, 98), (1_000, end_mb)], 1_000_000
    )
    flood, beside = flood_table(every, courses, rows, 100), beside_table(every, courses, rows)
    long = long_table(lasting, 1_000_000)
    return sentence(flood, long), meaning(every, flood, beside, long)


def test_words_of_a_claim_that_holds() -> None:
    """From the figures."""
    found, meant = _findings(replace(_COURSE, after_mb=101, let_in=60_000), 99)
    assert found == (
        "With sessions and no bounds 20,000 clients who never closed left 40 kB each, 900 MB in all; without sessions "
        "60,000 clients took the memory from 100 to 101 MB, and none was refused; over 1,000,000 calls such a replica "
        "took 97 MB after a tenth of them, 98 after half, and 99 at the end."
    )
    assert meant.startswith("The claim holds: ")
    assert "2 → 16 ms (stateless)" in meant


@pytest.mark.parametrize(
    ("stateless", "end_mb", "says"),
    [
        (replace(_COURSE, after_mb=500), 99, "a client without a session took 20 kB"),
        (replace(_COURSE, after_mb=101, refused=20_000), 99, "50% of the clients were refused"),
        (replace(_COURSE, after_mb=101, calls=[Call(15, 1, "HTTP 503")]), 99, "1 calls of the good client failed"),
        (replace(_COURSE, after_mb=101), 120, "grew by 22 MB"),
    ],
)
def test_words_of_a_claim_that_does_not_hold(stateless: Course, end_mb: float, says: str) -> None:
    """The text says so, and why."""
    _, meant = _findings(stateless, end_mb)
    assert meant.startswith("The claim doesn't hold as it stands: ")
    assert says in meant


def test_plots_without_figures() -> None:
    """A case that failed has no line."""
    assert [plot.lines for plot in plots(cases(SHORT), {name: [] for name in NAMES})] == [[]] * 4


def test_bounded_sessions(tmp_path: Path) -> None:
    """One too many is refused, until the one that is there has been idle for long enough."""
    settings = {"SESSIONS_MOST": "1", "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT": "2", "STATELESS_HTTP": "false"}
    pack = f"benchmarks.packs.{ECHO.pack}"

    with Process("benchmarks.flood.bounds", core=None, folder=tmp_path, MCP_COMPONENTS=pack, **settings) as process:
        process.wait_ready()
        crowd = asyncio.run(_crowd(process.port, lambda crowd: crowd.refused > 0, sessions=True))
        assert (crowd.let_in, crowd.wrong) == (1, 0)
        until(lambda: asyncio.run(newcomers(process.port, 1, sessions=True)) == 0, "the session is closed")


def test_it_runs() -> None:
    """Figures that can be, of a server without sessions and of the long run; what wasn't asked for is skipped."""
    done = script(
        *("--quick", "--rounds", "1", "--only", "stateless", "--seconds", "0.5", "--requests", "500", "--json", "-")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    study = read(done.stdout)
    flood, long, beside = study.findings.tables
    assert [row.name for row in flood.rows] == list(NAMES)
    assert {row.name for row in flood.rows if not row.skipped} == {STATELESS}
    figures = {name: spread.median for name, spread in flood.rows[3].figures.items()}
    assert figures["let_in"] > 0
    assert (figures["refused"], figures["errors"]) == (0, 0)
    assert 20 < figures["memory_before"] < 400
    assert 20 < figures["memory_after"] < 400
    assert 0 <= figures["kept"] < 1_000
    assert 0 < figures["p50"] <= figures["p99"] < 60_000
    assert 0 < figures["rate"] < 100_000
    assert beside.median(STATELESS, "turned_away") == 0
    assert 10 < (beside.median(STATELESS, "cpu") or 0) < 1e6
    assert (long.median(ECHO.name, "requests") or 0) >= 500
    for row in long.rows:
        assert 0 < row.figures["p50"].median <= row.figures["p99"].median < 60_000
        assert 1 < row.figures["cpu"].median < 1e5
    assert 20 < (long.median(ECHO.name, "memory_end") or 0) < 400
    assert study.findings.sentence.startswith("Without sessions ")
    assert all(plot.lines for plot in study.findings.plots)
    assert study.findings.versions["mcp"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--only", "some"], "'some' is none of unbounded"), (["--requests", "0"], "--requests"), (["now"], "now")],
)
def test_wrong_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and which."""
    with pytest.raises(SystemExit) as ended:
        main(SCRIPT, arguments)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


async def _crowd(port: int, enough: Callable[[Crowd], bool], *, sessions: bool) -> Crowd:
    crowd = Crowd(port, sessions=sessions, own_connections=False, at_once=2)
    await _until(crowd, lambda: enough(crowd))
    crowd.leave()
    return crowd


async def _until(crowd: Crowd, enough: Callable[[], bool]) -> None:
    """Let a crowd come until it is enough."""
    flooding = asyncio.ensure_future(crowd.run())
    await _once(enough)
    crowd.stop()
    await flooding


async def _once(condition: Callable[[], bool]) -> None:
    """Return when a condition holds; it must within half a minute."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # what is measured has no event to wait for
            await asyncio.sleep(0.005)


def _http(body: bytes, status: int = 200, session: str = "") -> bytes:
    header = f"Mcp-Session-Id: {session}\r\n" if session else ""
    return f"HTTP/1.1 {status} so\r\n{header}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _reply(message: object, session: str = "") -> bytes:
    return _http(orjson.dumps(message), session=session)


@asynccontextmanager
async def _answering(answer: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """A server that gives each request its answer; an empty one closes the connection."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"Content-Length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if not (said := answer(head + body)):
                    break
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:  # or they would end after their loop
            writer.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
