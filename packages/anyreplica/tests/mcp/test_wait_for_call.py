"""Test that the wait for a call ends when the client disconnects."""

import asyncio

import pytest
from starlette.types import Message

from anyreplica.http.refusal import ClientGone
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import Request


def test_a_closed_connection_ends_the_wait() -> None:
    """The replica cancels the call if the transport refuses a write because the connection is closed.

    uvloop's transport refuses the write before it reports the end of the connection.
    """
    closed = False

    async def send(_: Message) -> None:
        if closed:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def wait() -> None:
        nonlocal closed
        request = Request(1, "tools/call", None, size=0)
        call = Call(request, "2025-11-25", False, {"type": "http"}, receive, send, True)
        call.first_event_seconds = 0.01
        await call.event(b"{}")
        closed = True
        task = asyncio.create_task(asyncio.sleep(60))
        with pytest.raises(ClientGone):
            await call.wait_for(task)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(wait())
