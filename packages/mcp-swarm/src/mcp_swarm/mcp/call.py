"""One request on its way through the endpoint, and the reply to it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY
from starlette.types import Receive, Scope, Send

from mcp_swarm.http.refusal import ClientGone
from mcp_swarm.http.responses import send_json
from mcp_swarm.mcp.message import Request

PING_SECONDS = 15.0
"""Silence after which an open event stream gets a comment, so that no proxy between takes it for dead."""

# WHATWG HTML, "Server-sent events"; the last two keep proxies from holding events back.
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(slots=True)
class Call:
    """A request that its protocol's checks have passed, and where its answer goes."""

    request: Request
    version: str
    modern: bool
    """Whether it speaks the stateless protocol (2026-07-28 and later)."""
    scope: Scope
    receive: Receive
    send: Send
    may_stream: bool
    """Whether the reply may become an event stream. If not, what would be sent ahead of the result is dropped."""
    streaming: bool = False
    """Whether it has become one."""
    _lock: asyncio.Lock | None = None

    @property
    def client(self) -> tuple[Any, Any]:
        """What the client tells of itself and of what it is capable of, in the stateless protocol's envelope."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)

    async def event(self, message: bytes) -> None:
        """Send a JSON-RPC message ahead of the result."""
        if self.may_stream:
            await self._write(b"event: message\r\ndata: " + message + b"\r\n\r\n")

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply; within an event stream, `status` has been sent before."""
        return self._end(message) if self.streaming else send_json(self.scope, self.send, status, message)

    async def wait_for(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Wait until the call's task is done, and keep the event stream (if it has begun) alive meanwhile.

        Args:
            seconds: how long to wait; None: for ever.

        Raises (and cancels the task, without waiting for its end):
            ClientGone: the caller closed the connection.
            TimeoutError: the time is over.
            CancelledError: this replica stops.
        """
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        gone = asyncio.Task(self._gone(), loop=loop)  # past the task factory, which is for tasks of components
        try:
            while True:
                pause = PING_SECONDS if deadline is None else min(PING_SECONDS, deadline - loop.time())
                await asyncio.wait((task, gone), timeout=max(pause, 0), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return
                if gone.done():
                    raise ClientGone
                if deadline is not None and loop.time() >= deadline:
                    raise TimeoutError
                if self.streaming:
                    await self._ping()
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                # Look at its end, or asyncio logs that nobody did.
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _gone(self) -> None:
        """Wait for the end of the connection. The body has been read, so nothing else comes."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def _ping(self) -> None:
        """Show the event stream's reader, and the proxies between, that it is alive."""
        try:
            await asyncio.wait_for(self._write(b": ping\r\n\r\n"), 1)
        except TimeoutError:
            pass  # a reader that is slow must not hold up the looking
        except RuntimeError:  # uvloop's, of a connection whose end has not been told yet
            raise ClientGone from None

    async def _end(self, message: bytes) -> None:
        await self.event(message)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, part: bytes) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()  # a tool's tasks may report progress side by side
        async with self._lock:
            if not self.streaming:
                self.streaming = True
                await self.send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self.send({"type": "http.response.body", "body": part, "more_body": True})
