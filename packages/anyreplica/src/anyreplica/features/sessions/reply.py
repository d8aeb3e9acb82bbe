"""The reply to a call of a session. The client can cancel the call, and resume its event stream at any replica."""

import asyncio
import contextlib
import math
from typing import Any

from starlette.types import Receive, Scope, Send

from anyreplica.components.call_limits import TimeLimit
from anyreplica.features.sessions.call_events import CallEvents, OpenRound
from anyreplica.features.sessions.channel import ClientNews, ClientWatch, SessionChannel
from anyreplica.features.sessions.event_log import AdoptedCall
from anyreplica.http.request_record import RPC_ERROR, record_of
from anyreplica.http.responses import FIRST_WITH_EMPTY, PING_SECONDS, ClientGone, empty_event, error_response, event
from anyreplica.mcp.message import Request
from anyreplica.mcp.reply import Reply, abandon, disconnected

_NOT_RESUMED = "The call was cancelled, because its client did not resume it in time."
_CANCELLED = -32800
"""JSON-RPC code of the error that ends a cancelled call. It is RequestCancelled of the Language Server Protocol, which
the MCP SDK uses, too."""

_HAND_OVER_SECONDS = 0.5
"""Pause between two attempts to give the call to another replica, in seconds."""

_STOP_SECONDS = 1.0
"""Time limit for giving the call to another replica when this one stops, in seconds. Docker kills a replica that takes
longer to stop."""

RETRY_MILLISECONDS = 500
"""Pause that a client makes before it resumes a call at another replica."""


class SessionReply(Reply):
    """The reply to one call of a session.

    Attributes:
        events: the log of the events, if the client can resume the event stream at any replica.
        detached: whether the client has lost or left the connection of a call that it can resume. The call goes on.
        taken: the state of a multi-round call that this replica took over from another one. None for a call that began
            here. It becomes None as soon as the call waits for its client again.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        may_stream: bool,
        first_event_seconds: float,
        request: Request,
        channel: SessionChannel,
    ) -> None:
        super().__init__(scope, receive, send, may_stream, first_event_seconds)
        self._request = request
        self._channel = channel
        self._drains = False  # whether this replica drains and has not yet tried to give the call to another replica
        self.events: CallEvents | None = None
        self.detached = False
        self.adopted: AdoptedCall | None = None

    def take_over(self, taken: AdoptedCall) -> None:
        """Use this reply for a call that another replica began. The client reads the events over another connection."""
        self.events, self.adopted = taken.events, taken
        self.streaming = self.as_events = self.detached = True

    async def wait_in_round(self, found: OpenRound) -> None:
        """Note that the call waits for its client in a round, see `SessionChannel.wait_in_round`."""
        sent: frozenset[str] = frozenset() if self.adopted is None else self.adopted.sent
        if self.may_stream and self._channel.keeps_events:
            async with self._locked():
                await self._open()
        await self._channel.wait_in_round(self.events, found, sent)
        self.adopted = None

    async def end_round(self) -> None:
        """Note that the call begins its next round, see `SessionChannel.end_round`."""
        await self._channel.end_round(self.events)

    async def event(self, message: bytes, *, last: bool = False, needed: bool = False) -> None:
        """Send a JSON-RPC message like `Reply.event`, and keep it for a client that resumes the call."""
        if not self.may_stream:
            return
        async with self._locked():
            await self._open()
            await self._write(await self._logged(message, last=last, needed=needed))

    async def wait_for(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        """Wait like `Reply.wait_for`.

        If the client loses the connection of a call that it can resume, the call goes on.
        """
        watch = ClientWatch(disconnected(self._receive))
        try:
            with self._channel.watching(self._request, watch):
                await self._wait_with_news(task, TimeLimit(seconds), watch)
        except ClientGone:
            if watch.cancelled:  # the connection may still be open
                await self._answer_cancelled()
            elif self.events is not None:
                with contextlib.suppress(ClientGone):
                    await self.event(error_response(self._request.id, _CANCELLED, _NOT_RESUMED), last=True)
                    await self._channel.forget_round()
            raise
        finally:
            watch.close()
            if not task.done():
                abandon(task)

    async def _answer_cancelled(self) -> None:
        """Send the error of a cancelled call, on an event stream if the client accepts one, as FastMCP does.

        The client waits no longer. The client of the MCP SDK drops an event that it does not wait for, but a JSON reply
        raises an exception in it.
        """
        record_of(self._scope).failed = RPC_ERROR
        if self.may_stream:
            async with self._locked():
                if not self.streaming:  # no client resumes this stream, so its events need no log
                    self.streaming = self.as_events = True
                    await super()._begin()
        await self.finish(200, error_response(self._request.id, _CANCELLED, "Request cancelled"))
        await self._channel.forget_round()

    async def stop(self, identity: int | str) -> None:
        """Give the call to another replica, or answer it like `Reply.stop`."""
        if self.events is not None:
            with contextlib.suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(_STOP_SECONDS):
                    if await self.events.hand_over():
                        return
        await super().stop(identity)

    async def release(self) -> None:
        """End the event stream of a call that this replica no longer runs, so that its client resumes it at another."""
        if self.streaming and self.events is not None and not self.detached:
            with contextlib.suppress(RuntimeError):  # the stream has ended, or the connection is closed
                await self._end_stream()

    async def _wait_with_news(self, task: asyncio.Task[Any], limit: TimeLimit, watch: ClientWatch) -> None:
        loop = asyncio.get_running_loop()
        next_ping = loop.time() + self._quiet_seconds()
        while True:
            pause = min(
                next_ping - loop.time(), limit.seconds_until_check(), _HAND_OVER_SECONDS if self._drains else math.inf
            )
            await asyncio.wait((task, watch.news), timeout=max(0.0, pause), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return
            if watch.news.done():
                await self._react(watch)
            if self._drains:
                await self._hand_over()
            if limit.has_ended():
                raise TimeoutError
            if loop.time() >= next_ping or (self.detached and next_ping > loop.time() + self._check_seconds()):
                next_ping = loop.time() + self._check_seconds()
                await self._comment()

    def _check_seconds(self) -> float:
        """Return the pause between two checks of the client, in seconds."""
        if self.detached and self.events is not None:
            return min(PING_SECONDS, self.events.seconds)
        return self._quiet_seconds()

    async def _react(self, watch: ClientWatch) -> None:
        """React to news about the client. Raise `ClientGone` if the call must end."""
        news = watch.next_news()
        if news is ClientNews.CANCELLED or self.events is None:
            if news in (ClientNews.CANCELLED, ClientNews.GONE):
                raise ClientGone
            return
        if not self.detached:
            await self._detach(self.events, closed=news is ClientNews.GONE)
        self._drains = self._drains or news is ClientNews.DRAIN

    async def _hand_over(self) -> None:
        """Give the call to another replica, if the call waits for its client.

        Raises:
            ClientGone: the events now belong to another replica.
        """
        if self.events is not None:
            with contextlib.suppress(OSError):  # the next attempt follows soon
                if await self.events.hand_over():
                    self.events = None
                    raise ClientGone
                self._drains = False  # the call does not wait now

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

    async def _end_stream(self) -> None:
        await self._write(b"retry: %d\r\n\r\n" % RETRY_MILLISECONDS)
        await self._close()

    async def _ping(self) -> None:
        """Send a comment on the event stream, so that the client and the proxies keep the connection open.

        Without a connection, check whether the client has resumed the call, or has time to do it.

        Raises:
            ClientGone: the client closed the connection, or has not resumed the call in time.
        """
        if self.detached and self.events is not None:
            with contextlib.suppress(OSError):
                if not await self.events.has_reader():
                    raise ClientGone
            return
        await super()._ping()
        if self.events is not None:
            with contextlib.suppress(OSError):
                await self.events.keep()

    async def _open(self) -> None:
        """Begin the event stream. If the client can resume it, the first event is empty and only has an id."""
        if self.streaming:
            return
        await super()._open()
        if self.events is not None and self._channel.version >= FIRST_WITH_EMPTY:
            await self._write(empty_event(self.events.first_id))

    async def _begin(self) -> None:
        self.events = await self._channel.begin_events(self._request, self._scope)
        await super()._begin()

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

    async def _end(self, message: bytes) -> None:
        if self.detached:  # the store is the only place for the message
            async with self._channel.outside():
                await self.event(message, last=True)
        else:
            await self.event(message, last=True)
        await self._close()

    async def _write(self, part: bytes) -> None:
        if not self.detached:
            await super()._write(part)

    async def _close(self) -> None:
        if not self.detached:
            await super()._close()
