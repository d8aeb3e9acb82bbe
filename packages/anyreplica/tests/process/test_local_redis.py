"""Tests of the Redis that `run --replicas` starts: what replicas share in it, and what ends with the supervisor."""

import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.process import local_redis
from anyreplica.settings.errors import StartupError
from conftest import Server, StartServer, until
from tests.calls import BOTH, call, get, legacy, text
from tests.mcp.any_replica.listeners import listening
from tests.processes import command_of, descendants, runs
from tests.sessions.client import EVERYTHING, said
from tests.sessions.client import start as start_session

KINDS = [pytest.param("redis-server", marks=pytest.mark.needs("redis")), "embedded"]
_EMBEDDED = "an embedded stand-in, because redis-server is not on PATH"
SAID = {"redis-server": r"redis-server \d+\.\d+\S* from PATH", "embedded": _EMBEDDED}
PACKS = "server,tests.packs.state,tests.packs.working"


def wait_ready(server: Server, count: int) -> None:
    """Wait until so many replicas and workers are ready, or the server has ended."""
    ready = f"{count} replicas and workers are ready"
    until(lambda: server.output.count(" - Ready") == count or server.process.poll() is not None, ready, 240)
    assert server.process.poll() is None, server.output


@pytest.fixture(scope="module", params=KINDS)
def replicas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three replicas with each kind of Redis. Each caller may make 30 calls."""
    folder = tmp_path_factory.mktemp(request.param)
    path = {} if request.param == "redis-server" else {"PATH": str(folder)}
    limits = {"RATE_LIMIT": "1/h", "RATE_BURST": "30", "TRUSTED_PROXIES": "127.0.0.1"}
    given = {"MCP_COMPONENTS": PACKS, "HANDSHAKE_SESSIONS": "full", "TMPDIR": str(folder), **limits, **path}
    server = Server(folder / "log", "--replicas", "3", **given)
    try:
        wait_ready(server, 4)
        yield server
    finally:
        server.stop()
    assert sorted(file.name for file in folder.iterdir()) == ["log"]  # the folder of the socket is deleted


def by_another(ask: Callable[[], httpx.Response], than: str) -> httpx.Response:
    """Repeat a request until another replica answers it."""
    for _ in range(100):
        reply = ask()
        if reply.headers["X-Served-By"] != than:
            return reply
    raise AssertionError("one replica answered 100 requests")


def submit(server: Server, name: str, **arguments: Any) -> httpx.Response:
    """Submit a job."""
    return httpx.post(f"{server.url}/jobs", json={"job": name, "params": arguments})


def test_the_start_says_which_redis_it_is(replicas: Server, request: pytest.FixtureRequest) -> None:
    """One line names the Redis, the welcome comes last and lists the jobs, and there are no warnings."""
    until(lambda: "Ctrl-C stops" in replicas.output, "the welcome is there")
    output = replicas.output
    ready = [place.start() for place in re.finditer(" - Ready\n", output)]
    assert len(ready) == 4, "three replicas and the worker"
    assert max(ready) < output.index("  template-mcp 0.1.0: 3 replicas on ")
    named = re.search(r"^  tools +(\S.*), and (\d+) for jobs$", output, re.MULTILINE)
    assert named
    listed = len(legacy(replicas.url, "tools/list").json()["result"]["tools"])
    assert len(named[1].split(", ")) + int(named[2]) == listed
    assert output.count(f": tools {listed}, ") == 3
    (kind,) = [kind for kind in SAID if f"[{kind}]" in request.node.name]
    assert len(re.findall(f"Redis for these replicas: {SAID[kind]}, in memory", output)) == 1
    assert "gone when they stop. A stack needs its own Redis" in output
    assert re.search(r"^  jobs +.*export_data, .*generate_report", output, re.MULTILINE)
    assert "WARNING" not in output


def test_another_replica_returns_the_result_of_a_job(replicas: Server) -> None:
    """A job that one replica accepts runs, and another replica returns its result."""
    accepted = submit(replicas, "export_data", rows=2)
    assert accepted.status_code == 202, accepted.text
    result = f"{replicas.url}/jobs/{accepted.json()['id']}/result"
    until(lambda: get(result).status_code == 200, "the job has a result")
    reply = by_another(lambda: get(result), accepted.headers["X-Served-By"])
    assert reply.json()["result"].splitlines()[0] == "id,region,month,cents"


def test_a_subscriber_gets_the_events_of_another_replica(replicas: Server) -> None:
    """A change that one replica publishes reaches the subscribers of all replicas."""
    uri = "orders://today"
    with listening(replicas, {"resourceSubscriptions": [uri]}) as events:
        told = [legacy(replicas.url, "tools/call", {"name": "touch", "arguments": {"uri": uri}}) for _ in range(12)]
        assert len({reply.headers["X-Served-By"] for reply in told}) > 1
        heard = [next(events)["params"]["uri"] for _ in told]
    assert heard == [uri] * 12


def test_replicas_share_a_rate(replicas: Server) -> None:
    """A caller's limit holds for all replicas together. If Redis answers too late, the next caller is tried."""
    echo = {"name": "echo", "arguments": {"message": "any"}}
    callers = (f"10.1.2.{number}" for number in range(1, 200))

    def shared() -> bool:
        caller = {"X-Forwarded-For": next(callers)}
        replies = [legacy(replicas.url, "tools/call", echo, **caller) for _ in range(45)]
        assert len({reply.headers["X-Served-By"] for reply in replies}) == 3
        return [reply.status_code for reply in replies].count(200) == 30

    until(shared, "three replicas together have answered 30 of a caller's calls")


def test_a_tool_keeps_state_for_a_session(replicas: Server) -> None:
    """What a tool stores for a session on one replica, the session finds on the others."""
    client = start_session(replicas.url, EVERYTHING, **{"X-Forwarded-For": "10.1.1.2"})
    with client.calling(replicas.url, "remember", {"value": "tea"}) as messages:
        assert said(next(messages)) == "tea"
    asked, headers = {"name": "recall", "arguments": {}}, {**client.headed(), "Accept": BOTH}
    replies = [legacy(replicas.url, "tools/call", asked, **headers) for _ in range(15)]
    assert all('"tea"' in reply.text for reply in replies)
    assert len({reply.headers["X-Served-By"] for reply in replies}) > 1


def redis_of(server: Server) -> list[int]:
    """Return the process ids of the Redis."""
    return [pid for pid in descendants(server.process.pid) if "redis-server unix" in command_of(pid)]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for temporary files. Its path is short enough for the path of a socket."""
    return tmp_path_factory.mktemp("t")


def started(start: StartServer, folder: Path, kind: str, **settings: str) -> Server:
    """Start two replicas and their worker, with a folder of their own for the socket."""
    path = {} if kind == "redis-server" else {"PATH": str(folder)}
    given = {"MCP_COMPONENTS": PACKS, "TMPDIR": str(folder), **path, **settings}
    server = start("--replicas", "2", ready=False, **given)
    wait_ready(server, 3)
    return server


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param("redis-server", signal.SIGINT, marks=[pytest.mark.needs("redis"), pytest.mark.slow]),
        pytest.param("redis-server", signal.SIGHUP, marks=[pytest.mark.needs("redis"), pytest.mark.slow]),
        ("embedded", signal.SIGTERM),
    ],
)
def test_a_signal_ends_all(start_server: StartServer, tmp_path: Path, folder: Path, kind: str, number: int) -> None:
    """After Ctrl-C or another signal, no process and no file is left. A job that runs may finish before."""
    server = started(start_server, folder, kind)
    mark = tmp_path / "mark"
    submit(server, "nap", seconds=1, mark=str(mark))
    until(mark.exists, "the job runs")
    processes = descendants(server.process.pid)
    # Two replicas, the worker, the process that forks them, and Python's resource tracker. redis-server adds two.
    assert len(processes) >= 5
    send = os.kill if number == signal.SIGTERM else os.killpg  # the terminal sends the others to the whole group
    send(server.process.pid, number)
    assert server.process.wait(60) == 0
    until(lambda: not any(map(runs, processes)), "all processes have ended")
    assert mark.read_text().split() == ["begun", "ended"]
    assert list(folder.iterdir()) == []
    assert not re.search("Traceback|WARNING|ERROR", server.output)  # Redis ends after the processes that use it


def test_a_long_path_of_the_temporary_folder(start_server: StartServer, tmp_path: Path) -> None:
    """Local replicas also start if TMPDIR has a path that is too long for the path of a Unix socket."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    server = start_server("--replicas", "2", ready=False, MCP_COMPONENTS=PACKS, TMPDIR=str(folder))
    wait_ready(server, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_everything_ends_with_a_killed_supervisor(start_server: StartServer, folder: Path, kind: str) -> None:
    """After a SIGKILL of the supervisor, its Redis, its worker and its replicas end."""
    server = started(start_server, folder, kind)
    processes = descendants(server.process.pid)
    server.process.kill()
    until(lambda: not any(map(runs, processes)), "all processes have ended")


@pytest.mark.slow
@pytest.mark.needs("redis")
def test_a_killed_redis_is_replaced(start_server: StartServer, folder: Path) -> None:
    """If redis-server is killed, the log says so, a new one starts, and jobs run again."""
    server = started(start_server, folder, "redis-server")
    assert submit(server, "export_data", rows=1).status_code == 202
    (redis,) = redis_of(server)
    os.kill(redis, signal.SIGKILL)
    until(lambda: any(pid != redis for pid in redis_of(server)), "a new Redis runs")
    assert "Redis of these replicas (jobs, sessions, …) is lost: it ended with exit code -9" in server.output
    until(lambda: submit(server, "export_data", rows=1).status_code == 202, "jobs are accepted again")
    status = f"{server.url}/jobs/{submit(server, 'export_data', rows=1).json()['id']}/status"
    until(lambda: get(status).json().get("status") == "completed", "jobs run again")


@pytest.mark.slow
def test_a_killed_worker_is_replaced(start_server: StartServer, tmp_path: Path, folder: Path) -> None:
    """If the worker is killed, the log says so, and a new worker runs the job again."""
    server = started(start_server, folder, "embedded", JOBS_REDELIVERY_SECONDS="1")
    job = submit(server, "kills_its_worker", times=1, mark=str(tmp_path / "mark")).json()["id"]
    until(lambda: get(f"{server.url}/jobs/{job}/status").json()["status"] == "completed", "the job has ended", 60)
    assert server.output.count("The worker ended with exit code 137; started a new worker") == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'cannot open the socket: Permission denied'; exit 1", "cannot open the socket: Permission denied"),
        ("exit 7", "it ended with exit code 7"),
    ],
)
def test_a_broken_redis_server(start_server: StartServer, tmp_path: Path, script: str, reason: str) -> None:
    """If redis-server does not start, one line says why, and the stand-in takes its place."""
    program = tmp_path / "redis-server"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    server = start_server("--replicas", "1", PATH=str(tmp_path))
    assert f"WARNING - {program} does not start: {reason}\n" in server.output
    assert "Redis for these replicas: an embedded stand-in, in memory" in server.output
    assert text(call(server.url, "echo", {"message": "any"})) == "any"


def test_no_redis(start_server: StartServer) -> None:
    """With --no-redis there is no Redis, and several replicas offer no jobs."""
    server = start_server("--replicas", "2", "--no-redis")
    until(lambda: "Ctrl-C stops" in server.output, "all replicas are ready")
    assert "Redis for these replicas" not in server.output
    assert "jobs       not offered: 2 replicas need a shared queue; set JOBS_URL=redis://…" in server.output
    assert submit(server, "export_data", rows=1).status_code == 503


def test_no_folder_for_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder for the socket, the start stops with one line that says what to set."""
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    refused = "No socket for the Redis of these replicas: No such file or directory; set TMPDIR to another folder"
    with pytest.raises(StartupError, match=refused), local_redis.running(["REDIS_URL"]):
        pass
