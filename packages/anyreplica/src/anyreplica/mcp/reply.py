"""The reply to a call: one JSON object, or an event stream."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from anyreplica.http.request_record import FAULT, record_of
from anyreplica.http.responses import (
    EVENT_STREAM_HEADERS,
    JSON,
    PING,
    PING_SECONDS,
    UNAVAILABLE,
    ClientGone,
    Refused,
    error_response,
    event,
    send_refusal,
    send_response,
)

logger = logging.getLogger(__name__)

LARGE = 4_000_000
"""Size in bytes. A larger reply causes a warning, because many clients refuse it, often without an error."""

_UNWATCHED_SECONDS = 0.05
"""Watch the connection only after this time, because that takes a task of its own and most calls end soon."""

_PING_SECONDS = 1.0
"""Time limit for sending a comment, in seconds."""


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


class Reply:
    """The reply to one call.

    Args:
        may_stream: whether the reply may become an event stream. If not, notifications before the result are dropped.
        first_event_seconds: seconds without a reply after which the reply becomes an event stream, if `may_stream` is
            true. Also the seconds between two comments on the stream. 0: only an event opens the stream, and comments
            follow every `PING_SECONDS`.

    Attributes:
        headers: headers in addition to those of every reply.
        streaming: whether the reply has become an event stream.
        as_events: whether `finish` sends an event. It is true from the first event on.
    """

    # Most replies never set these attributes, so they do not pay for them.
    headers: Sequence[tuple[bytes, bytes]] = ()
    streaming = False
    as_events = False
    _lock: asyncio.Lock | None = None

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, may_stream: bool, first_event_seconds: float = PING_SECONDS
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.may_stream = may_stream
        self.first_event_seconds = first_event_seconds

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply. `status` has no effect on an event stream that has started.

        Awaiting it raises `ClientGone` if another replica has taken over the call.
        """
        if len(message) > LARGE:
            self._warn_of_size(len(message))
        if self.as_events:
            return self._end(message)
        headers = (*JSON, *self.headers) if self.headers else JSON
        return send_response(self._scope, self._send, status, headers, message)

    def _warn_of_size(self, size: int) -> None:
        called = " ".join(word for word in record_of(self._scope).called if word)
        text = "The reply to %s has %.1f MB, and many clients and models accept far less; return a part or a link"
        logger.warning(text, called, size / 1e6)

    async def event(self, message: bytes, *, last: bool = False, needed: bool = False) -> None:  # noqa: ARG002
        """Send a JSON-RPC message on the event stream, and open the stream first if necessary.

        If the reply may not become an event stream, do nothing.

        Args:
            last: whether the message ends the call: the result or an error.
            needed: whether the call waits for an answer to the message.

        Raises:
            ClientGone: another replica has taken over the call.
        """
        if self.may_stream:
            async with self._locked():
                await self._open()
                await self._write(event(message))

    async def wait_for(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Wait until the call's task is done, and keep an open event stream alive during this time.

        If this method raises an exception, it cancels the task and does not wait for its end.

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
            await _end_or_pause(task, min(_UNWATCHED_SECONDS, seconds or _UNWATCHED_SECONDS))
            if not task.done():
                await self._watch(task, deadline)
        finally:
            if not task.done():
                abandon(task)

    async def _watch(self, task: asyncio.Task[Any], deadline: float) -> None:
        loop = asyncio.get_running_loop()
        # Without the task factory, which is for tasks of components.
        gone = asyncio.Task(disconnected(self._receive), loop=loop)
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
                await self._comment()
        finally:
            gone.cancel()

    async def stop(self, identity: int | str) -> None:
        """Answer a call that was cancelled because the replica stops.

        Args:
            identity: the JSON-RPC id of the call.
        """
        record_of(self._scope).failed = FAULT
        text = "The server is stopping and has cancelled the call; retry now."
        # RuntimeError: the reply was already being sent. ClientGone: another replica has taken over the call.
        with suppress(RuntimeError, ClientGone):
            if self.streaming:
                await self.finish(503, error_response(identity, UNAVAILABLE, text))
            else:
                refused = Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
                await send_refusal(self._scope, self._send, refused)

    async def release(self) -> None:
        """Note that the client is gone, or that another replica runs the call. There is nothing more to send."""

    def _quiet_seconds(self) -> float:
        """Return the time that the connection may be quiet, in seconds."""
        return self.first_event_seconds or PING_SECONDS

    async def _comment(self) -> None:
        """Send a comment, so that no proxy closes the connection. Make the reply an event stream for it, if it may be.

        Raises:
            ClientGone: the client closed the connection.
        """
        if not self.streaming:
            if not (self.may_stream and self.first_event_seconds):
                return
            async with self._locked():
                await self._open()
        await self._ping()

    async def _ping(self) -> None:
        """Send a comment on the event stream.

        Raises:
            ClientGone: the client closed the connection.
        """
        try:
            async with asyncio.timeout(_PING_SECONDS), self._locked():
                await self._write(PING)
        except (TimeoutError, OSError):
            pass  # a slow client must not delay the next check of the task
        except RuntimeError:  # uvloop raises it for a closed connection before the server reports the disconnect
            raise ClientGone from None

    async def _open(self) -> None:
        """Send the head of the event stream, if this has not happened. The caller holds the lock."""
        if not self.streaming:
            as_events = self.as_events
            self.streaming = self.as_events = True
            try:
                await self._begin()
            except asyncio.CancelledError:  # only the task that sends this event is cancelled; the reply is still due
                self.streaming, self.as_events = False, as_events
                raise

    async def _begin(self) -> None:
        headers = [*EVENT_STREAM_HEADERS, *self.headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _end(self, message: bytes) -> None:
        await self.event(message, last=True)
        await self._close()

    async def _write(self, part: bytes) -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def _close(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _locked(self) -> asyncio.Lock:
        """Return the lock of the event stream: several tasks of a tool may report progress at the same time."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel a task that is not done, and do not wait for its end."""
    task.cancel()
    # Read the task's exception later, or asyncio logs that nobody read it.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
