"""Tests of the reply to a call."""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.types import Message

from anyreplica.mcp.asking import CannotAsk
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import Request
from anyreplica.sessions.call_events import CallEvents


class Slow(CannotAsk):
    """A session whose event log does not answer."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.begun = asyncio.Event()

    async def begin_events(self, call: Call) -> CallEvents | None:  # noqa: ARG002
        """Wait for ever."""
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError


def test_a_cancelled_message_does_not_spoil_the_reply() -> None:
    """If the task that sends the first message is cancelled before the event stream has begun, the reply is complete.

    A proxy cancels the message of its upstream server when the result is there.
    """
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def never() -> Any:
        await asyncio.Event().wait()

    async def answer() -> None:
        slow = Slow()
        request = Request(id=1, method="tools/call", params={}, size=0, memory=0)
        call = Call(request, "2025-11-25", False, {"type": "http"}, never, send, True, slow)
        progress = asyncio.ensure_future(call.event(b"{}"))
        await slow.begun.wait()
        progress.cancel()
        with suppress(asyncio.CancelledError):
            await progress
        await call.finish(200, b'{"id":1}')

    asyncio.run(answer())
    start, body = sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert body["body"] == b'{"id":1}'
