"""Tests of EVENT_LOOP, the event loop of replicas and workers."""

import sys

import pytest
import uvicorn

from anyreplica import Settings
from anyreplica.process.replica import uvicorn_options
from conftest import StartServer, until
from tests.calls import call, text
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
    done = start(*arguments, LOG_LEVEL="WARNING", JOBS_URL="redis://localhost:1/0")
    told = "EVENT_LOOP=uvloop: uvloop is not installed; install it, or set EVENT_LOOP=asyncio\n"
    assert (done.returncode, done.stderr) == (3, told)


@pytest.mark.parametrize("arguments", [(), ("--replicas", "2", "--no-redis")])
def test_a_tool_gets_the_loop_of_asyncio(start_server: StartServer, arguments: tuple[str, ...]) -> None:
    """With EVENT_LOOP=asyncio, tools run on a loop of asyncio. The replica serves and drains as with uvloop."""
    server = start_server(*arguments, EVENT_LOOP="asyncio", MCP_COMPONENTS="tests.packs.event_loop")
    until(lambda: text(call(server.url, "selector", {})) == "EpollSelector", "the tool finds the loop")
    assert server.stop() == 0
    assert "Traceback" not in server.output
