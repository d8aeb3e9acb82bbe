"""A call: one request inside the endpoint, and the reply to it."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY
from starlette.types import Receive, Scope, Send

from mcp_swarm.downstream.deadline import TimeLimit
from mcp_swarm.http.access_log import FAILED, RPC_ERROR
from mcp_swarm.http.refusal import ClientGone
from mcp_swarm.http.responses import error_response, send_json
from mcp_swarm.mcp.asking import STATELESS, Asking
from mcp_swarm.mcp.message import Request

PING_SECONDS = 15.0
"""Seconds without an event after which an open event stream gets a comment, so that no proxy closes the stream."""

_CANCELLED = 0
"""JSON-RPC code of the error that ends a cancelled call. The MCP SDK uses this code, too."""

# WHATWG HTML, "Server-sent events". The last two headers stop proxies from buffering events.
EVENT_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


PING = b": ping\r\n\r\n"
"""A comment that keeps an event stream open."""


def event(message: bytes) -> bytes:
    """Return a JSON-RPC message as an event."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


@dataclass(slots=True)
class Call:
    """A request that passed the checks of its protocol, with the channel for its reply."""

    request: Request
    version: str
    modern: bool
    """Whether the request uses the stateless protocol (2026-07-28 and later)."""
    scope: Scope
    receive: Receive
    send: Send
    may_stream: bool
    """Whether the reply may become an event stream. If not, notifications before the result are dropped."""
    asking: Asking = STATELESS
    """How the call asks its client."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    """Headers of the reply in addition to its type and length, unless the reply is an event stream."""
    streaming: bool = False
    """Whether the reply has become an event stream."""
    _lock: asyncio.Lock | None = None

    @property
    def client(self) -> tuple[Any, Any]:
        """The client's information and capabilities from `_meta` in the stateless protocol; otherwise None for both."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)

    async def event(self, message: bytes) -> None:
        """Send a JSON-RPC message before the result, if the reply may become an event stream."""
        if self.may_stream:
            await self._write(event(message))

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply. `status` has no effect on an event stream that has started."""
        if self.streaming:
            return self._end(message)
        return send_json(self.scope, self.send, status, message, self.headers)

    async def wait_for(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Wait until the call's task is done, and keep an open event stream alive during this time.

        In case of an exception, cancel the task and do not wait for its end.

        Args:
            seconds: time limit of the wait. The time in which the call waits for an answer of its client does not
                count. None: no limit.

        Raises:
            ClientGone: the client closed the connection, or has cancelled the call.
            TimeoutError: the time limit ended.
            CancelledError: this replica stops.
        """
        loop = asyncio.get_running_loop()
        limit = TimeLimit(seconds)
        next_ping = loop.time() + PING_SECONDS
        gone = asyncio.Task(self._gone(), loop=loop)  # without the task factory, which is for tasks of components
        try:
            with self.asking.cancelling(self, gone.cancel):
                while True:
                    pause = max(0.0, min(next_ping - loop.time(), limit.look()))
                    await asyncio.wait((task, gone), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                    if task.done():
                        return
                    if gone.done():
                        raise ClientGone
                    if limit.has_ended():
                        raise TimeoutError
                    if loop.time() >= next_ping:
                        next_ping = loop.time() + PING_SECONDS
                        if self.streaming:
                            await self._ping()
        except ClientGone:
            if gone.cancelled():  # the client has cancelled the call, and its connection is still open
                self.scope[FAILED] = RPC_ERROR
                await self.finish(200, error_response(self.request.id, _CANCELLED, "Request cancelled"))
            raise
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
                # Read the task's exception later, or asyncio logs that nobody read it.
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _gone(self) -> None:
        """Wait until the client closes the connection. The request body is already read, so nothing else arrives."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def _ping(self) -> None:
        """Send a comment on the event stream, so that the client and the proxies keep the connection open."""
        try:
            await asyncio.wait_for(self._write(PING), 1)
        except TimeoutError:
            pass  # a slow client must not delay the next check of the task
        except RuntimeError:  # uvloop raises it for a closed connection before the server reports the disconnect
            raise ClientGone from None

    async def _end(self, message: bytes) -> None:
        await self.event(message)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, part: bytes) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()  # several tasks of a tool may report progress at the same time
        async with self._lock:
            if not self.streaming:
                self.streaming = True
                await self.send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})
            await self.send({"type": "http.response.body", "body": part, "more_body": True})
