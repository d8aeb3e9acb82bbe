"""A call: one request inside the endpoint, and the reply to it."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY
from starlette.types import Receive, Scope, Send

from anyreplica.components.deadline import TimeLimit
from anyreplica.http.access_log import FAILED, RPC_ERROR
from anyreplica.http.event_stream import (
    EVENT_STREAM_HEADERS,
    FIRST_WITH_EMPTY,
    PING,
    PING_SECONDS,
    empty_event,
    event,
)
from anyreplica.http.refusal import ClientGone
from anyreplica.http.responses import error_response, send_json
from anyreplica.mcp.asking import STATELESS, Asking
from anyreplica.mcp.client_watch import ClientNews, ClientWatch
from anyreplica.mcp.message import Request
from anyreplica.sessions.call_events import CallEvents
from anyreplica.sessions.event_log import TakenCall

_NOT_RESUMED = "The call was cancelled, because its client did not resume it in time."
_CANCELLED = 0
"""JSON-RPC code of the error that ends a cancelled call. The MCP SDK uses this code, too."""

_UNWATCHED_SECONDS = 0.05
"""Time from the start of a call until this replica looks whether the client has closed the connection."""

_LEAVE_SECONDS = 0.5
"""Pause between two attempts to give up a call, in seconds."""

RETRY_MILLISECONDS = 500
"""Pause that a client makes before it resumes a call at another replica."""


async def disconnected(receive: Receive) -> None:
    """Wait until the client closes the connection. The request body is already read, so nothing else arrives."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _end_or_pause(task: asyncio.Task[Any], seconds: float) -> asyncio.Future[None]:
    """Return a future that is done as soon as the task is done or the time is over.

    `asyncio.wait` does the same, but it costs 3 µs more.
    """
    loop = task.get_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        timer.cancel()
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(seconds, wake)
    task.add_done_callback(wake)
    return waiter


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
    first_event_seconds: float = PING_SECONDS
    """Seconds without a reply after which the reply becomes an event stream, if `may_stream` is true. Also the seconds
    between two comments on the stream. 0: only an event opens the stream, and comments follow every `PING_SECONDS`."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    """Headers of the reply in addition to its type and length, unless the reply is an event stream."""
    streaming: bool = False
    """Whether the reply has become an event stream."""
    events: CallEvents | None = None
    """The log of the events, if the client can resume the event stream at any replica."""
    leaves: bool = False
    """Whether this replica drains and has not yet tried to give the call to another replica."""
    detached: bool = False
    """Whether the client has lost or left the connection of a call that it can resume. The call goes on."""
    taken: TakenCall | None = None
    """The state of a multi-round call that this replica took over from another one. None for a call that began here. It
    becomes None as soon as the call waits for its client again."""
    _lock: asyncio.Lock | None = None

    @property
    def client(self) -> tuple[Any, Any]:
        """The client's information and capabilities from `_meta` in the stateless protocol; otherwise None for both."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)

    async def event(self, message: bytes, *, last: bool = False, needed: bool = False) -> None:
        """Send a JSON-RPC message on the event stream, and open the stream first if necessary.

        If the reply may not become an event stream, do nothing.

        Args:
            last: whether the message ends the call: the result or an error.
            needed: whether the call waits for an answer to the message.

        Raises:
            ClientGone: another replica has taken over the call.
        """
        if not self.may_stream:
            return
        async with self._locked():
            if not self.streaming:
                await self._begin()
            await self._send(await self._logged(message, last=last, needed=needed))

    async def open_stream(self) -> None:
        """Make the reply an event stream, if it is not one yet."""
        async with self._locked():
            if not self.streaming:
                await self._begin()

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply. `status` has no effect on an event stream that has started.

        Awaiting it raises `ClientGone` if another replica has taken over the call.
        """
        if self.streaming:
            return self._end(message)
        return send_json(self.scope, self.send, status, message, self.headers)

    async def wait_for(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Wait until the call's task is done, and keep an open event stream alive during this time.

        If the client loses the connection of a call that it can resume, the call goes on. If this method raises an
        exception, it cancels the task and does not wait for its end.

        Args:
            seconds: time limit of the wait. The time in which the call waits for an answer of its client does not
                count. None: no limit.

        Raises:
            ClientGone: the client closed the connection, has cancelled the call, or has not resumed it in time; or
                another replica takes over, because this one drains.
            TimeoutError: the time limit ended.
            CancelledError: this replica stops.
        """
        deadline = time.monotonic() + (math.inf if seconds is None else seconds)
        try:
            if self.asking.can_ask:
                await self._wait_in_session(task, seconds)
                return
            # Most calls end soon. The look at the connection begins later, because it takes a task of its own.
            await _end_or_pause(task, min(_UNWATCHED_SECONDS, seconds or _UNWATCHED_SECONDS))
            if not task.done():
                await self._wait(task, deadline)
        finally:
            if not task.done():
                task.cancel()
                # Read the task's exception later, or asyncio logs that nobody read it.
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _wait(self, task: asyncio.Task[Any], deadline: float) -> None:
        """Wait for the task of a call that has no session, and watch the connection."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Task(
            disconnected(self.receive), loop=loop
        )  # without the task factory, which is for tasks of components
        try:
            while True:
                pause = max(0.0, min(self._quiet_seconds(), deadline - time.monotonic()))
                await asyncio.wait((task, gone), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return
                if gone.done():
                    raise ClientGone
                if time.monotonic() >= deadline:
                    raise TimeoutError
                await self._give_sign()
        finally:
            gone.cancel()

    async def _wait_in_session(self, task: asyncio.Task[Any], seconds: float | None) -> None:
        """Wait for the task of a call in a session. The client can cancel and resume the call."""
        watch = ClientWatch(disconnected(self.receive))
        try:
            with self.asking.watching(self, watch):
                await self._wait_with_news(task, TimeLimit(seconds), watch)
        except ClientGone:
            if watch.cancelled:  # the connection may still be open
                self.scope[FAILED] = RPC_ERROR
                await self.finish(200, error_response(self.request.id, _CANCELLED, "Request cancelled"))
                await self.asking.forget_round()
            elif self.events is not None:
                with contextlib.suppress(ClientGone):
                    await self.event(error_response(self.request.id, _CANCELLED, _NOT_RESUMED), last=True)
                    await self.asking.forget_round()
            raise
        finally:
            watch.close()

    async def _wait_with_news(self, task: asyncio.Task[Any], limit: TimeLimit, watch: ClientWatch) -> None:
        loop = asyncio.get_running_loop()
        next_ping = loop.time() + self._quiet_seconds()
        while True:
            pause = max(0.0, min(next_ping - loop.time(), limit.look(), _LEAVE_SECONDS if self.leaves else math.inf))
            await asyncio.wait((task, watch.news), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return
            if watch.news.done():
                await self._react(watch)
            if self.leaves:
                await self._leave()
            if limit.has_ended():
                raise TimeoutError
            if loop.time() >= next_ping or (self.detached and next_ping > loop.time() + self._look_seconds()):
                next_ping = loop.time() + self._look_seconds()
                await self._give_sign()

    def _quiet_seconds(self) -> float:
        """Return the time that the connection may be quiet, in seconds."""
        return self.first_event_seconds or PING_SECONDS

    async def _give_sign(self) -> None:
        """Send a comment, so that no proxy closes the connection. Make the reply an event stream for it, if it may be.

        Raises:
            ClientGone: see `_ping`.
        """
        if not self.streaming:
            if not (self.may_stream and self.first_event_seconds):
                return
            await self.open_stream()
        await self._ping()

    def _look_seconds(self) -> float:
        """Return the pause between two looks at the client, in seconds."""
        if self.detached and self.events is not None:
            return min(PING_SECONDS, self.events.seconds)
        return self._quiet_seconds()

    async def _react(self, watch: ClientWatch) -> None:
        """React to news about the client. Raise `ClientGone` if the call must end."""
        news = watch.take()
        if news is ClientNews.CANCELLED or self.events is None:
            if news in (ClientNews.CANCELLED, ClientNews.GONE):
                raise ClientGone
            return
        if not self.detached:
            await self._detach(self.events, closed=news is ClientNews.GONE)
        self.leaves = self.leaves or news is ClientNews.DRAIN

    async def _leave(self) -> None:
        """Give up the call, if it waits for its client.

        Raises:
            ClientGone: the events now belong to another replica.
        """
        if self.events is not None:
            with contextlib.suppress(OSError):  # the next look tries again
                if await self.events.give_up():
                    self.events = None
                    raise ClientGone
                self.leaves = False  # the call does not wait now

    async def let_go(self) -> None:
        """End the event stream of a call that this replica no longer runs, so that its client resumes it at another."""
        if self.streaming and self.events is not None and not self.detached:
            with contextlib.suppress(RuntimeError):  # the stream has ended, or the connection is closed
                await self._end_stream()

    async def _end_stream(self) -> None:
        await self._send(b"retry: %d\r\n\r\n" % RETRY_MILLISECONDS)
        await self._close()

    async def _detach(self, events: CallEvents, *, closed: bool) -> None:
        """Go on without a connection. If the connection is not `closed`, end the event stream with a pause for the
        client.
        """
        async with self._locked():  # no other task sends an event after the end of the stream
            if not closed:
                await self._end_stream()
            self.detached = True
        with contextlib.suppress(OSError):  # `_ping` tries again
            await events.lose_reader()

    async def _ping(self) -> None:
        """Send a comment on the event stream, so that the client and the proxies keep the connection open.

        Without a connection, look whether the client has resumed the call, or has time to do it.

        Raises:
            ClientGone: the client closed the connection, or has not resumed the call in time.
        """
        if self.detached and self.events is not None:
            with contextlib.suppress(OSError):
                if not await self.events.has_reader():
                    raise ClientGone
            return
        try:
            async with asyncio.timeout(1), self._locked():
                await self._send(PING)
            if self.events is not None:
                await self.events.keep()
        except (TimeoutError, OSError):
            pass  # a slow client, or a slow Redis, must not delay the next check of the task
        except RuntimeError:  # uvloop raises it for a closed connection before the server reports the disconnect
            raise ClientGone from None

    async def _end(self, message: bytes) -> None:
        if self.detached:  # the store is the only place for the message
            async with self.asking.outside():
                await self.event(message, last=True)
        else:
            await self.event(message, last=True)
        await self._close()

    async def _close(self) -> None:
        if not self.detached:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self) -> None:
        """Begin the event stream. If the client can resume it, the first event is empty and only has an id."""
        self.streaming = True
        try:
            self.events = await self.asking.begin_events(self)
            await self.send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})
        except asyncio.CancelledError:  # only the task that sends this event is cancelled, and the reply is still due
            self.streaming = False
            raise
        if self.events is not None and self.version >= FIRST_WITH_EMPTY:
            await self._send(empty_event(self.events.first_id))

    async def _logged(self, message: bytes, *, last: bool, needed: bool) -> bytes:
        """Return the event of a message, with an id if the client can resume the stream after it.

        Raises:
            ClientGone: another replica has taken over the call.
        """
        identity: str | None = ""
        if self.events is not None:
            with contextlib.suppress(OSError):
                delivered = not self.detached
                identity = await self.events.append(message, last=last, delivered=delivered, needed=needed)
        if identity is None:
            raise ClientGone
        return event(message, identity)

    async def _send(self, part: bytes) -> None:
        if not self.detached:
            await self.send({"type": "http.response.body", "body": part, "more_body": True})

    def _locked(self) -> asyncio.Lock:
        """Return the lock of the event stream: several tasks of a tool may report progress at the same time."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock
