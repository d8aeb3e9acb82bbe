"""Tests of `anyreplica.testing.serve`."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.client import Client

from anyreplica import App, Settings, create_app
from anyreplica.testing import serve

pytestmark = pytest.mark.anyio


def _factory(server: FastMCP) -> Callable[[], App]:
    return lambda: create_app(server, Settings.load().model_copy(update={"mcp_components": ()}))


async def test_a_tool_and_a_test_share_an_event_loop() -> None:
    """A client calls a tool that waits for the test, over HTTP and within the limits of the settings."""
    server = FastMCP("waiting")

    called, released = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> str:
        called.set()
        await released.wait()
        return "released"

    handler = signal.getsignal(signal.SIGTERM)
    async with serve(_factory(server), MAX_BODY_BYTES="2000") as served, Client(f"{served.url}/mcp") as client:
        assert signal.getsignal(signal.SIGTERM) is handler
        waiting = asyncio.create_task(client.call_tool("wait"))
        await called.wait()
        released.set()
        assert (await waiting).data == "released"
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{served.url}/mcp", json="x" * 3000)).status_code == 413
            assert (await http.get(f"{served.url}/readyz")).status_code == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", httpx2.URL(served.url).port or 0))


@pytest.mark.parametrize("fails_at_start", [True, False])
async def test_what_a_lifespan_raises_reaches_the_test(*, fails_at_start: bool) -> None:
    """The test gets the exception of a lifespan that fails at the start or at the stop."""

    @asynccontextmanager
    async def lifespan(_: FastMCP) -> AsyncIterator[None]:
        if fails_at_start:
            raise LookupError("no database")
        yield
        raise LookupError("no database")

    with pytest.raises(LookupError, match="no database"):
        async with serve(_factory(FastMCP("failing", lifespan=lifespan))):
            assert not fails_at_start


async def test_two_replicas_in_one_test() -> None:
    """A test can serve two servers at the same time, in one event loop."""

    async with serve(_factory(_named("one"))) as one, serve(_factory(_named("two"))) as two:
        for each, name in ((one, "one"), (two, "two")):
            async with Client(f"{each.url}/mcp") as client:
                assert (await client.call_tool("name")).data == name


def _named(name: str) -> FastMCP:
    server = FastMCP(name)

    @server.tool(name="name")
    def own_name() -> str:
        return name

    return server
