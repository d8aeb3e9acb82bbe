"""Tests of a start that waits: a signal ends it at once, with exit code 0. A process that fails ends the others."""

import re
import signal
from pathlib import Path

import pytest

from conftest import StartServer, free_port, until
from tests.processes import runs

WAITING = """
import asyncio, multiprocessing, os, time
from pathlib import Path
from anyreplica import lifespan

def begin():
    Path({folder!r}, f"begun-{{os.getpid()}}").touch()

async def wait():
    await asyncio.sleep(1000)

async def wait_despite_cancellation():
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

async def block():
    time.sleep(1000)

@lifespan
async def opened():
    if {where!r} in multiprocessing.current_process().name:
        begin()
        try:
            await {how}()
        finally:
            Path({folder!r}, f"ended-{{os.getpid()}}").touch()
    yield
"""
IMPORTED = WAITING + "\nbegin()\ntime.sleep(1000)\n"
OPTIONS = [(), ("--workers", "2"), ("--replicas", "2", "--no-redis")]


def pack(folder: Path, how: str, where: str = "", source: str = WAITING) -> dict[str, str]:
    """Write a pack that waits in processes with `where` in their name. Return the settings of a server with it."""
    (folder / "waiting_pack.py").write_text(source.format(folder=str(folder), how=how, where=where))
    return {"MCP_COMPONENTS": "server,waiting_pack", "PYTHONPATH": str(folder), "DRAIN_SECONDS": "600"}


def begun(folder: Path) -> int:
    """Return how many processes wait in their start."""
    return len(list(folder.glob("begun-*")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", OPTIONS)
def test_a_lifespan_that_waits_is_cancelled(
    start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    """The start ends without a drain and without a traceback, and the lifespan can clean up."""
    server = start_server(*arguments, ready=False, **pack(tmp_path, "wait"))
    until(lambda: begun(tmp_path) == (2 if arguments else 1), lambda: f"all wait; they printed:\n{server.output}")
    assert server.stop(number, 30) == 0
    assert len(list(tmp_path.glob("ended-*"))) == begun(tmp_path)
    assert not re.search("Traceback|Start failed|draining for", server.output), server.output


@pytest.mark.parametrize("how", ["wait_despite_cancellation", "block"])
@pytest.mark.parametrize("arguments", OPTIONS)
def test_a_lifespan_that_does_not_end_is_left(
    start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...], how: str
) -> None:
    """The process ends, even if the lifespan ignores its cancellation or blocks the event loop."""
    server = start_server(*arguments, ready=False, **pack(tmp_path, how))
    until(lambda: begun(tmp_path) == (2 if arguments else 1), lambda: f"all wait; they printed:\n{server.output}")
    assert server.stop(seconds=30) == 0


@pytest.mark.parametrize("arguments", OPTIONS)
def test_an_import_that_waits_is_stopped(start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """SIGTERM has a handler before the modules of the author are imported. Otherwise the exit code would be -15."""
    server = start_server(*arguments, ready=False, **pack(tmp_path, "wait", source=IMPORTED))
    until(lambda: begun(tmp_path) > 0, lambda: f"an import waits; the server printed:\n{server.output}")
    assert server.stop(seconds=30) == 0
    assert "Traceback" not in server.output


def test_a_worker_that_waits_is_stopped(start_server: StartServer, tmp_path: Path) -> None:
    """A worker handles signals before its lifespans begin, and it has nothing to drain before it is ready."""
    settings = pack(tmp_path, "wait")
    server = start_server("worker", ready=False, JOBS_URL=f"redis://127.0.0.1:{free_port()}/0", **settings)
    until(lambda: begun(tmp_path) == 1, lambda: f"the worker waits; it printed:\n{server.output}")
    assert server.stop(seconds=30) == 0
    assert not re.search("Traceback|Start failed|draining for", server.output), server.output


@pytest.mark.needs("redis")
def test_the_worker_of_local_replicas_is_stopped(start_server: StartServer, tmp_path: Path) -> None:
    """Its server is another class than that of the replicas."""
    settings = {**pack(tmp_path, "wait", where="Process-worker"), "DRAIN_SECONDS": "0"}
    server = start_server("--replicas", "1", ready=False, **settings)
    until(lambda: begun(tmp_path) == 1, lambda: f"the worker waits; the command printed:\n{server.output}")
    assert server.stop(seconds=30) == 0
    assert "Traceback" not in server.output


FAILING = """
import sys
from anyreplica import main
from anyreplica.process.supervisor import ReplicaProcess

started = []
start = ReplicaProcess.start

def start_one(process):
    if started:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    start(process)
    started.append(process)
    print("pid of the first:", process.pid, flush=True)

ReplicaProcess.start = start_one
sys.exit(main(app="server.server:create_app"))
"""


@pytest.mark.parametrize("arguments", [("--workers", "3"), ("--replicas", "3", "--no-redis")])
def test_a_process_that_cannot_be_started_ends_the_others(
    start_server: StartServer, arguments: tuple[str, ...]
) -> None:
    """The first process runs already. It ends, and the line about the second one is the last."""
    server = start_server(*arguments, ready=False, command=("-c", FAILING))
    assert server.process.wait(60) == 3, server.output
    kind = "process" if "--workers" in arguments else "replica"
    assert server.output.endswith(f"A {kind} cannot start: Resource temporarily unavailable\n"), server.output
    (pid,) = re.findall(r"pid of the first: (\d+)", server.output)
    assert not runs(int(pid))
