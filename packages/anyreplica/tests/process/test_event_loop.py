"""Tests of EVENT_LOOP, the event loop of replicas and workers."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn

from anyreplica import Settings
from anyreplica.process.event_loop import new_loop
from anyreplica.process.replica import uvicorn_options
from conftest import StartServer, free_port, until
from tests.calls import call, post, text
from tests.replicas import Family, asking
from tests.starts import start


@pytest.mark.parametrize(
    ("settings", "module"), [(Settings(), "uvloop"), (Settings(event_loop="asyncio"), "asyncio.unix_events")]
)
def test_the_setting_chooses_the_loop(settings: Settings, module: str) -> None:
    """Every command uses these options: replicas, workers and the autoscaler have the loop of the setting."""
    factory = uvicorn.Config(**uvicorn_options(settings, "")).get_loop_factory()
    assert factory is not None
    loop = factory()
    loop.close()
    assert type(loop).__module__ == module


@pytest.mark.parametrize("arguments", [["check"], ["run"], ["worker"], ["run", "--replicas", "2"]])
def test_a_missing_loop_is_one_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """Without the package uvloop, no process starts, and the line names the variable."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    done = start(*arguments, LOG_LEVEL="WARNING", JOBS_URL="redis://localhost:1/0", MCP_PORT=str(free_port()))
    told = "EVENT_LOOP=uvloop: uvloop is not installed; install it, or set EVENT_LOOP=asyncio\n"
    assert (done.returncode, done.stderr) == (3, told)


@pytest.mark.parametrize("arguments", [(), ("--replicas", "2", "--no-redis")])
def test_a_tool_gets_the_loop_of_asyncio(start_server: StartServer, arguments: tuple[str, ...]) -> None:
    """With EVENT_LOOP=asyncio, tools run on a loop of asyncio. The replica serves and drains as with uvloop."""
    server = start_server(*arguments, EVENT_LOOP="asyncio", MCP_COMPONENTS="tests.packs.event_loop")
    until(lambda: text(call(server.url, "selector", {})) == "EpollSelector", "the tool finds the loop")
    assert server.stop() == 0
    assert "Traceback" not in server.output


@pytest.mark.parametrize("family", ["handshake", "stateless"])
def test_a_tool_patches_the_loop(start_server: StartServer, family: Family) -> None:
    """With EVENT_LOOP=asyncio, a tool may call `nest_asyncio.apply()` and `asyncio.run` on the loop of the replica.

    The replica answers other calls meanwhile and afterwards, and it drains.
    """
    server = start_server(EVENT_LOOP="asyncio", MCP_COMPONENTS="server,tests.packs.event_loop")
    server.wait_ready()

    def ask(number: int) -> str:
        tool, argument = ("nested", "text") if number % 2 else ("echo", "message")
        reply = post(server.url, **asking(family, "tools/call", {"name": tool, "arguments": {argument: str(number)}}))
        return text(reply.json()["result"])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(80))) == [str(number) for number in range(80)]
    assert server.stop() == 0
    assert "Traceback" not in server.output


def test_an_inner_loop_may_take_what_is_ready() -> None:
    """The outer loop then goes on. With the loop of asyncio, an IndexError would end the replica."""
    loop: Any = new_loop()
    ran = list[str]()

    def inner() -> None:
        while loop._ready:
            loop._ready.popleft()._run()

    loop.call_soon(inner)
    loop.call_soon(ran.append, "taken by the inner loop")
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert ran == ["taken by the inner loop"]


def test_uvloop_cannot_be_patched(start_server: StartServer) -> None:
    """With the default loop the call fails, and only this call. The setting exists for this reason."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.event_loop")
    server.wait_ready()
    assert text(call(server.url, "nested", {"text": "x"})) == "Error calling tool 'nested'"
    assert "Can't patch loop of type <class 'uvloop.Loop'>" in server.output
    assert text(call(server.url, "echo", {"message": "still here"})) == "still here"
