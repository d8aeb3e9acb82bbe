"""Tests of the reply to a call whose message is cancelled or whose client disconnects."""

import asyncio
from contextlib import suppress

import pytest
from starlette.types import Message

from anyreplica.http.refusal import ClientGone
from anyreplica.mcp.reply import Reply


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
