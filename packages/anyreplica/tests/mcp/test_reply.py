"""Tests of the reply to a call whose message is cancelled or whose client disconnects."""

import asyncio
from contextlib import suppress

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from starlette.types import Message

from anyreplica.http.responses import ClientGone
from anyreplica.mcp.reply import LARGE, Reply
from tests.auth.test_crossing import served


async def silent() -> Message:
    """Wait for ever, as for a client that sends nothing more."""
    await asyncio.Event().wait()
    raise AssertionError


class Slow(Reply):
    """A reply whose event log does not answer."""

    begun: asyncio.Event

    async def _begin(self) -> None:
        """Wait for ever."""
        self.begun.set()
        await asyncio.Event().wait()


@pytest.mark.anyio
async def test_a_cancelled_message_does_not_spoil_the_reply() -> None:
    """A reply is complete if its first message is cancelled before the event stream has begun, as by a proxy."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    slow = Slow({"type": "http"}, silent, send, True)
    slow.begun = asyncio.Event()
    progress = asyncio.ensure_future(slow.event(b"{}"))
    await slow.begun.wait()
    progress.cancel()
    with suppress(asyncio.CancelledError):
        await progress
    await slow.finish(200, b'{"id":1}')
    start, body = sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert body["body"] == b'{"id":1}'


@pytest.mark.anyio
async def test_a_closed_connection_ends_the_wait() -> None:
    """A call is cancelled if the transport refuses a write, as uvloop's does before it reports the end."""
    closed = False

    async def send(_: Message) -> None:
        if closed:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    reply = Reply({"type": "http"}, silent, send, True, 0.01)
    await reply.event(b"{}")
    closed = True
    task = asyncio.create_task(asyncio.sleep(60))
    with pytest.raises(ClientGone):
        await reply.wait_for(task)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("middleware", [[], [Middleware()]], ids=["fast path", "FastMCP path"])
def test_the_log_names_a_tool_with_a_large_reply(
    middleware: list[Middleware], caplog: pytest.LogCaptureFixture
) -> None:
    """A reply that many clients refuse causes a warning that names the tool. A smaller one causes none."""
    mcp = FastMCP("server", middleware=middleware)

    @mcp.tool
    def rows(count: int) -> str:
        return "x" * count

    with served(mcp) as client:
        assert len(client.call("rows", count=LARGE // 3)) == LARGE // 3
        assert "MB" not in caplog.text
        assert len(client.call("rows", count=LARGE)) == LARGE
    assert "The reply to tools/call rows has " in caplog.text
