"""The reply to one request: a JSON document, or an event stream once there is something to say before its end."""

import asyncio
from collections.abc import Awaitable

from starlette.types import Send

from mcp_swarm.http.json_replies import send_json

PING_SECONDS = 15.0
"""Silence after which an open event stream gets a comment, so that no proxy between takes it for dead."""

# WHATWG HTML, "Server-sent events"; the last two keep proxies from holding events back.
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Reply:
    """What is sent for one request.

    Args:
        may_stream: whether the caller takes an event stream. If not, what would be sent ahead of the result is dropped.
    """

    __slots__ = ("_lock", "_send", "may_stream", "streaming")

    def __init__(self, send: Send, *, may_stream: bool) -> None:
        self._send = send
        self._lock: asyncio.Lock | None = None
        self.may_stream = may_stream
        self.streaming = False

    async def event(self, message: bytes) -> None:
        """Send a JSON-RPC message ahead of the result."""
        if self.may_stream:
            await self._write(b"event: message\r\ndata: " + message + b"\r\n\r\n")

    async def ping(self) -> None:
        """Show an open event stream's reader, and the proxies between, that it is alive."""
        await self._write(b": ping\r\n\r\n")

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply; within an event stream, `status` has been sent before."""
        return self._end(message) if self.streaming else send_json(self._send, status, message)

    async def _end(self, message: bytes) -> None:
        await self.event(message)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, part: bytes) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()  # a tool's tasks may report progress side by side
        async with self._lock:
            if not self.streaming:
                self.streaming = True
                await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
