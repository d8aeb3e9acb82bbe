"""Tests of a replica that stops: it finishes the calls in flight and exits with 0."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Server, StartServer, until
from tests.calls import ENVELOPE, HEADERS, VERSION, call, open_session, request, text

TIMED = {"MCP_COMPONENTS": "server,tests.packs.timed"}
STREAMS = "application/json, text/event-stream"


def sent(tool: str, seconds: float, family: str) -> dict[str, Any]:
    """Return the body and headers of a call of a tool that takes some time."""
    params: dict[str, Any] = {"name": tool, "arguments": {"seconds": seconds}}
    headers = {**HEADERS, "Accept": STREAMS if tool == "report_and_take" else HEADERS["Accept"]}
    if tool == "report_and_take":
        params["_meta"] = {"progressToken": 1}
    if family == "modern":
        params["_meta"] = {**ENVELOPE, **params.get("_meta", {})}
        headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"json": request("tools/call", params), "headers": headers}


async def finish(server: Server, seconds: float) -> list[httpx.Response]:
    """Make calls of all kinds, stop the replica while the calls are in flight, and return the answers."""
    calls = [sent(tool, seconds, family) for tool in ("take", "report_and_take") for family in ("legacy", "modern")]
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        answers = [asyncio.create_task(client.post("/mcp", **call)) for call in calls]
        await in_flight(client, len(calls))
        server.process.send_signal(signal.SIGTERM)
        return [await answer for answer in answers]


async def in_flight(client: httpx.AsyncClient, count: int) -> None:
    """Wait until this number of calls has begun."""
    call = request("tools/call", {"name": "begun", "arguments": {}})
    begun = -1
    while begun < count:
        begun = (await client.post("/mcp", json=call, headers=HEADERS)).json()["result"]["structuredContent"]["result"]


def test_calls_in_flight_are_finished(start_server: StartServer) -> None:
    """Calls in flight, JSON or streams, are finished in both protocols, even if they take longer than the drain."""
    server = start_server(DRAIN_SECONDS="0.5", SHUTDOWN_GRACE_SECONDS="20", **TIMED)
    began = time.monotonic()
    answers = asyncio.run(finish(server, 3))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all("took 3 s" in answer.text for answer in answers)
    kinds = [answer.headers["Content-Type"].partition(";")[0] for answer in answers]
    assert kinds == ["application/json"] * 2 + ["text/event-stream"] * 2
    assert server.process.wait(60) == 0
    assert time.monotonic() - began >= 3


def test_a_call_beyond_the_grace_period_gets_an_error(start_server: StartServer) -> None:
    """A call that takes longer than the grace period gets 503 with Retry-After, or an error as the last event."""
    server = start_server(DRAIN_SECONDS="0", SHUTDOWN_GRACE_SECONDS="1", **TIMED)
    answers = asyncio.run(finish(server, 30))
    assert [answer.status_code for answer in answers] == [503] * 2 + [200] * 2
    for answer in answers[:2]:
        assert answer.headers["Retry-After"] == "1"
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (1, -32000)
    for answer in answers[2:]:  # These streams had already started.
        assert '"error":{"code":-32000,"message":"The server is stopping' in answer.text
    assert server.process.wait(60) == 0


@pytest.mark.anyio
async def test_a_second_signal_stops_at_once(start_server: StartServer) -> None:
    """A second signal stops a replica at once, despite calls in flight and a long drain."""
    server = start_server(DRAIN_SECONDS="600", SHUTDOWN_GRACE_SECONDS="600", **TIMED)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        answer = asyncio.create_task(client.post("/mcp", **sent("take", 50, "legacy")))
        await in_flight(client, 1)
        os.kill(server.process.pid, signal.SIGTERM)
        await asyncio.to_thread(until, lambda: "draining for 600 s" in server.output, "the drain begins")
        os.kill(server.process.pid, signal.SIGTERM)
        with contextlib.suppress(httpx.HTTPError):  # The client gets 503 only if there is time.
            assert (await answer).status_code == 503
        assert await asyncio.to_thread(server.process.wait, 60) == 0
    until(lambda: "received again: stopping at once" in server.output, "the log reports the second signal")


LEAVING = """
import threading
from concurrent.futures import ThreadPoolExecutor
from fastmcp.tools import tool

pool = ThreadPoolExecutor(1)

@tool
def leave_a_thread() -> str:
    pool.submit(threading.Event().wait)
    return "left"
"""


@pytest.mark.parametrize("arguments", [(), ("--workers", "2"), ("--replicas", "1", "--no-redis")])
def test_a_thread_that_never_ends_does_not_delay_the_end(
    start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Python would wait for the threads of `concurrent.futures` when the process ends."""
    (tmp_path / "leaving_pack.py").write_text(LEAVING)
    server = start_server(*arguments, MCP_COMPONENTS="leaving_pack", PYTHONPATH=str(tmp_path))
    assert text(call(server.url, "leave_a_thread", {})) == "left"
    assert server.stop(seconds=30) == 0
    assert "Stopped" in server.output


def test_the_stream_of_a_session_ends(start_server: StartServer) -> None:
    """The stream of a session has its head at once, ends properly and does not delay the shutdown."""
    server = start_server(DRAIN_SECONDS="0", SHUTDOWN_GRACE_SECONDS="600", STATELESS_HTTP="false")
    session, _ = open_session(server.url)
    headers = {"Accept": STREAMS, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    with httpx.stream("GET", f"{server.url}/mcp", timeout=30, headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        server.process.send_signal(signal.SIGTERM)
        stream.read()
        assert server.process.wait(60) == 0
