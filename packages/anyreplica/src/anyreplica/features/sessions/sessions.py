"""The sessions of handshake-protocol clients in one replica: start, open and end."""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import SubscriptionBus
from prometheus_client.registry import Collector
from starlette.types import Scope

from anyreplica.auth.caller import owner_of
from anyreplica.auth.client_identity import ClientIdentities
from anyreplica.features.sessions.answers import answers
from anyreplica.features.sessions.client_requests import ClientProgress, ClientRequests
from anyreplica.features.sessions.event_log import EventLog
from anyreplica.features.sessions.metrics import StreamMetrics
from anyreplica.features.sessions.session import Session, SessionIds, WaitingCall, WaitingCalls, unknown_session
from anyreplica.features.sessions.settings import SessionSettings
from anyreplica.features.sessions.streams import SessionRecords, SessionStreams
from anyreplica.http.limits import InFlight, Memory
from anyreplica.http.responses import Refused
from anyreplica.shared.lost_redis import patiently, retry_for
from anyreplica.shared.notifier import COMMAND_PREFIX, Notifier, RedisNotifier
from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


class Sessions:
    """Starts, opens and ends sessions, and sends requests to their clients.

    Args:
        in_flight: the counter of requests in flight.
        memory: the counter of their memory.
        bus: the events of changed lists and resources, from all replicas. None: there are none.
    """

    def __init__(
        self,
        settings: SessionSettings,
        redis: "Redis | None",
        in_flight: InFlight,
        memory: Memory,
        bus: SubscriptionBus | None,
    ) -> None:
        name = settings.mcp_name
        keys = settings.request_state_ring or [secrets.token_hex(32)]
        self.in_flight = in_flight
        self.outage = Outage(logger, "sessions are not checked for their end, and calls cannot be resumed")
        self._ids = SessionIds(keys, name, settings.handshake_session_seconds)
        self._notifier = Notifier() if redis is None else RedisNotifier(redis, f"{name}:wakeups")
        is_full = settings.handshake_sessions == "full"
        kept = settings.resume_seconds + settings.client_request_seconds if is_full else 0
        most = settings.resume_bytes
        self._answers = answers(redis, name, self._notifier, kept, most // 2)
        self._clients = ClientIdentities(settings.trusted_proxies)
        self.leaving: set[Callable[[], object]] = set()
        """Functions that move the client of a running call on to another replica. `leave` calls them."""
        self.has_left = False
        """Whether this replica drains."""
        self.adopted: set[asyncio.Task[None]] = set()
        """The tasks of calls that this replica has taken over."""
        self._stop_seconds = settings.drain_seconds + settings.shutdown_grace_seconds
        self._stops = 0.0
        self.progress = ClientProgress(self._notifier)
        self.requests = ClientRequests(self._answers, settings.client_request_seconds)
        self.waiting = WaitingCalls(in_flight, memory, settings.max_client_requests)
        self.records: SessionRecords | None = None
        """The records of sessions; None unless HANDSHAKE_SESSIONS is full."""
        self.streams: SessionStreams | None = None
        """The event streams of sessions; None unless HANDSHAKE_SESSIONS is full."""
        self.events: EventLog | None = None
        """The events of calls that clients can resume; None unless HANDSHAKE_SESSIONS is full."""
        if is_full and bus is not None:
            seconds = settings.resume_seconds
            self.events = EventLog(redis, name, self._notifier, seconds, keys, most)
            self.records = SessionRecords(redis, name, self._notifier, most // 2)
            self.streams = SessionStreams(self.records, self._answers, self._notifier, bus)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Receive the wake-ups of waiting calls inside the `async with` block.

        At the end, wait for the calls that this replica has taken over, until SHUTDOWN_GRACE_SECONDS are over.
        """
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._notifier.running())
            if self.events is not None:
                await stack.enter_async_context(self.events.running())
            stack.push_async_callback(self._end_adopted)
            yield

    async def _end_adopted(self) -> None:
        if self.adopted:
            await asyncio.wait(self.adopted, timeout=max(0.0, self._stops - time.monotonic()))
        for task in self.adopted:
            task.cancel()
        await asyncio.gather(*self.adopted, return_exceptions=True)

    @property
    def collectors(self) -> list[Collector]:
        """The metrics of sessions."""
        if self.streams is None or self.events is None:
            return [self.requests.metrics]
        return [self.requests.metrics, StreamMetrics(self.streams, self.events)]

    def leave(self) -> None:
        """Move clients on to other replicas: end the event streams of sessions and of calls that can be resumed."""
        self.has_left, self._stops = True, time.monotonic() + self._stop_seconds
        if self.streams is not None:
            self.streams.close()
        if self.events is not None:
            self.events.close()
        for move_on in tuple(self.leaving):
            move_on()

    def caller(self, scope: Scope) -> str:
        """Return the caller whose share of the limits a request uses."""
        return self._clients.share_of(scope)

    def waiting_call(self, scope: Scope, params: Mapping[str, Any] | None, memory: int) -> WaitingCall:
        """Return the state of a call that asks its client.

        Args:
            params: the params of the call.
            memory: the memory of the request that counts while the call is in flight, in bytes.
        """
        return WaitingCall(self.waiting, self.caller(scope), params, memory)

    def start(self, scope: Scope, version: str, params: Mapping[str, Any]) -> str:
        """Return the id of a new session.

        Args:
            version: the protocol version that client and server agreed on.
            params: the params of `initialize`.
        """
        return self._ids.seal(
            version, params.get("clientInfo") or {}, params.get("capabilities") or {}, owner_of(scope)
        )

    def open(self, scope: Scope, sealed: bytes) -> Session:
        """Return the session of an id. Raise `Refused` (HTTP 404) like `SessionIds.open`."""
        return self._ids.open(sealed.decode("latin-1"), owner_of(scope))

    async def open_live(self, scope: Scope, sealed: bytes) -> Session:
        """Return the session of an id, and check that the client has not ended the session at any replica.

        While Redis cannot be reached, the session counts as live.

        Raises:
            Refused: like `open`; also HTTP 404 if the client has ended the session.
        """
        session = self.open(scope, sealed)
        ended = False
        with self.outage.best_effort():
            ended = await self._answers.has_ended(session.key)
        if ended:
            raise unknown_session()
        return session

    async def cancel(self, sealed: bytes, identity: object) -> None:
        """Cancel a call of a session, on the replica that runs it.

        Args:
            sealed: the session id, which the caller of this method has opened.
            identity: the JSON-RPC id of the call.
        """
        if isinstance(identity, int | str):
            async with self.in_flight.outside():
                await patiently(self._notifier.wake_everywhere(_call(sealed, identity)))

    def cancelling(
        self, sealed: bytes, identity: int | str, cancel: Callable[[], object]
    ) -> AbstractContextManager[None]:
        """Call `cancel` when the client cancels this call, inside the `with` block."""
        return self._notifier.listening(_call(sealed, identity), cancel)

    async def end(self, session: Session, caller: str) -> None:
        """End a session on all replicas.

        Args:
            caller: the caller of the request, whose share of the limits counts.

        Raises:
            Refused: HTTP 503: Redis cannot be reached for some seconds, or the ended sessions have reached a limit. In
                the second case, the session has lost its record, and its id stays valid until it expires.
        """
        with self.outage.required(lambda _: Refused.retry_later("The session cannot be ended now; retry later.")):
            refused = await retry_for(partial(self._answers.end, session.key, session.expires, caller))
            if self.records is not None:
                await patiently(self.records.drop(session))
                await patiently(self.records.changed(session))
        if refused:
            raise Refused.retry_later(refused)


def _call(sealed: bytes, identity: int | str) -> str:
    """Return the name of the wake-ups of a call. It must not contain the session id, which others could use."""
    return f"{COMMAND_PREFIX}call:{hashlib.sha256(sealed).hexdigest()[:32]}:{identity!r}"
