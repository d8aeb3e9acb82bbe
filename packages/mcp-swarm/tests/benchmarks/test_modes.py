"""Sessions and stateless replicas behind a round robin: the script as a person runs it, and its parts."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from benchmarks.job_fleet import RedisServer
from benchmarks.mode.cases import AFFINITY, ALONE, MODERN, STATELESS, STORE, STORE_URL
from benchmarks.mode.fleet import Fleet
from benchmarks.mode.tally import failure_of
from benchmarks.mode.words import harms, sentence
from benchmarks.study.study import Row, Table, read, row_of
from conftest import ROOT, run, until
from mcp_swarm.loadtest.connection import HttpReply
from mcp_swarm.loadtest.message import SentRequest

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.modes")

LOST = {"kill_calls": 0, "kill_sessions": 0, "update_calls": 0, "update_sessions": 0}


def _row(name: str, success: float = 100, **lost: float) -> Row:
    figures: dict[str, Sequence[float]] = {what: [0, most] for what, most in (LOST | lost).items()}
    return row_of(name, name, figures | {"success": [success, 100]})


def _sentence(*rows: Row) -> str:
    return sentence(Table("modes", "", [], list(rows)))


def test_harms_are_those_of_the_worst_round() -> None:
    """Calls in flight on a killed replica are none."""
    assert harms(_row("x", kill_calls=7)) == []
    assert harms(_row("x", 99.9, kill_sessions=3, update_calls=1)) == [
        "answered 99.9 % of its calls",
        "lost 3 sessions by a kill",
        "lost 1 call by an update",
    ]


def test_the_sentence_says_what_was_measured() -> None:
    """For the claim, or against it."""
    alone, affinity = row_of(ALONE.name, "", {"success": [33]}), _row(AFFINITY.name, kill_sessions=5)
    stateless, modern = _row(STATELESS.name, kill_calls=2), _row(MODERN.name)
    said = _sentence(alone, affinity, stateless, modern)
    assert "through an update, and a kill cost 2 at most, without affinity" in said
    assert "no mode with sessions that was measured came through that" in said
    assert "; store did as well" in _sentence(alone, affinity, _row(STORE.name), stateless)
    assert "the claim is not shown" in _sentence(_row(ALONE.name), stateless)
    harmed = _sentence(alone, _row(STATELESS.name, update_calls=2), modern)
    assert harmed == "The claim does not hold in this run: stateless, lost 2 calls by an update."
    for rows in ([stateless], [alone], [alone, Row(STATELESS.name, "", failure="did not start")]):
        assert "Too little was measured" in _sentence(*rows)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (HttpReply(200, body=b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"hello"}]}}'), None),
        (HttpReply(200, body=b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"hallo"}]}}'), "wrong text"),
        (HttpReply(404, body=b'{"id":null,"error":{"message":"Session not found"}}'), "HTTP 404, Session not found"),
        (HttpReply(503, body=b"<html>"), "HTTP 503, no JSON-RPC"),
        (HttpReply(503, body=b"[]"), "HTTP 503, no JSON-RPC"),
    ],
)
def test_kinds_of_failure(reply: HttpReply, kind: str | None) -> None:
    """By status and the server's own words."""
    failure = failure_of(SentRequest(b"", "tools/call echo", 1, "hello"), reply)
    assert (failure and failure[0]) == kind


@pytest.mark.needs("haproxy")
def test_it_runs() -> None:
    """The 404 and the 400 of sessions without affinity, and figures that can be."""
    done = script("--quick", "--rounds", "1", "--only", "sessions,affinity", "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    modes, failures, beside = read(done.stdout).findings.tables
    assert [row.name for row in modes.rows] == [row.name for row in beside.rows] == ["sessions", "affinity"]
    for row in modes.rows:
        assert not row.failure
        columns = {column.name for column in modes.columns}
        assert row.figures.keys() == (columns - LOST.keys() if row.name == ALONE.name else columns)
        figures = {name: spread.median for name, spread in row.figures.items()}
        assert 0 < figures["success"] <= 100
        assert 100 / 3 - 0.1 < figures["busiest"] <= 100
        assert 0 < (beside.median(row.name, "p50") or 0) <= figures["p99"] < 10_000
        assert 10 < figures["cpu"] < 1_000_000
        for event in ("kill", "update"):
            sent = beside.median(row.name, f"{event}_sent") or 0
            assert 0 <= figures.get(f"{event}_calls", 0) < sent
    assert (modes.median("affinity", "success") or 0) > 1.5 * (modes.median("sessions", "success") or 0)
    assert (modes.median("affinity", "update_sessions") or 0) > 0
    assert {"HTTP 404, Session not found", "HTTP 400, Bad Request: Missing session ID"} <= {
        row.name for row in failures.rows
    }


@pytest.mark.needs("redis")
def test_a_session_is_taken_up_by_another_replica(tmp_path: Path) -> None:
    """With what its client said in `initialize`; one that nobody opened is unknown everywhere."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "echo", "arguments": {"message": "hello"}}
    core = min(os.sched_getaffinity(0))
    with RedisServer(tmp_path) as store:
        store.wait_ready()
        settings = {"STATELESS_HTTP": "false", STORE_URL: store.url(0)}
        fleet = Fleet("benchmarks.mode.shared_sessions", core, core, tmp_path, settings)
        with fleet.running(), httpx.Client(headers={"Accept": "application/json, text/event-stream"}) as client:

            def post(replica: int, method: str, params: object, session: str = "") -> httpx.Response:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                headers = {"Mcp-Session-Id": session} if session else {}
                return client.post(f"http://127.0.0.1:{fleet.ports[replica]}/mcp", json=body, headers=headers)

            session = post(0, "initialize", hello).headers["Mcp-Session-Id"]
            fleet.kill(0)
            for replica in (1, 2, 1):
                reply = post(replica, "tools/call", call, session)
                assert reply.json()["result"]["content"][0]["text"] == "hello"
            assert post(1, "tools/call", call, "nobody's").status_code == 404


@pytest.mark.needs("haproxy")
def test_a_stopped_run_leaves_nothing() -> None:
    """In the midst of conversations."""
    command = [sys.executable, "-m", "benchmarks.modes", "--only", "stateless"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            until(lambda: len(children.read_text().split()) == 4, "three replicas and the proxy run")
            started = children.read_text().split()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--rounds", "0"], "--rounds"), (["--only", "affinity,none"], "'none' is none of")]
)
def test_wrong_arguments(arguments: list[str], says: str) -> None:
    """Exit code 2, and which."""
    done = script(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_without_haproxy(tmp_path: Path) -> None:
    """Exit code 2, and what to do."""
    done = script("--quick", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "modes: haproxy is not installed: apt-get install haproxy\n")
