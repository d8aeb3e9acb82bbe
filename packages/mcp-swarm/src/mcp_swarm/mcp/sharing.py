"""What one replica shares with the others, put together by the settings."""

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.request_state import OneUse, note_state
from mcp_swarm.settings import Settings
from mcp_swarm.shared import publish
from mcp_swarm.shared.events import RedisBus
from mcp_swarm.shared.peers import Peers, peers
from mcp_swarm.shared.redis import connect

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_METHOD = "subscriptions/listen"


class Listening(ListenHandler):
    """The SDK's handler, which opens no stream once it is closed: nobody would end that one."""

    _closed = False

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream.

        Raises:
            MCPError: this replica is stopping.
        """
        if self._closed:
            raise MCPError(INTERNAL_ERROR, "This replica is stopping; listen again.")
        return await super().__call__(ctx, params)

    def close(self) -> None:
        """End all streams, each with its result."""
        self._closed = True
        super().close()


class Subscriptions:
    """The method `subscriptions/listen`, which can be offered and withdrawn.

    Args:
        bus: brings the events.
    """

    def __init__(self, mcp: FastMCP, bus: SubscriptionBus) -> None:
        self._mcp = mcp
        self._bus = bus
        self._listening: Listening | None = None

    def offer(self) -> None:
        """Take subscriptions from now on."""
        self._listening = Listening(self._bus)
        _sdk.low_level(self._mcp).add_request_handler(_METHOD, SubscriptionsListenRequestParams, self._listening)

    def withdraw(self) -> None:
        """Take none any more, and end those that there are."""
        self.close()
        _sdk.withdraw_method(self._mcp, _METHOD)

    def close(self) -> None:
        """End all streams, each with its result: nobody else would."""
        if self._listening is not None:
            self._listening.close()


@dataclass
class Sharing:
    """A replica's part in what is shared."""

    redis: "Redis | None"
    peers: Peers
    bus: SubscriptionBus | None
    """How change events travel; None if subscriptions aren't offered."""
    subscriptions: Subscriptions | None
    """None if they can't be offered, however many replicas there are."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            if self.redis is not None:
                stack.push_async_callback(self.redis.aclose)
            if isinstance(self.bus, RedisBus):
                await stack.enter_async_context(self.bus.running())
            await stack.enter_async_context(self.peers.running())
            yield


def sharing(settings: Settings, mcp: FastMCP, replica: str) -> Sharing:
    """Give a server what it shares with other replicas.

    Subscriptions are offered where an event reaches every listener: with Redis, or with a single replica. What isn't
    offered isn't in the reply to `server/discover` either, since the SDK derives that from the handlers.

    Args:
        replica: this one's name.

    Raises:
        StartupError: REDIS_URL is none.
    """
    redis = connect(settings)
    low_level = _sdk.low_level(mcp)
    if redis is not None:  # around FastMCP's boundary, which unseals the state, and within it
        low_level.middleware.insert(0, note_state)
        low_level.middleware.append(OneUse(redis, settings.request_state_seconds, settings.mcp_name))
        bus: SubscriptionBus | None = RedisBus(redis, f"{settings.mcp_name}:events")
    else:
        bus = InMemorySubscriptionBus() if settings.mcp_replicas == 1 else None
    known = peers(settings, redis, replica)
    if bus is None:
        logger.info("Subscriptions are not offered: with several replicas they need REDIS_URL")
        return Sharing(redis, known, None, None)
    publish.use(bus)
    subscriptions = Subscriptions(mcp, bus)
    subscriptions.offer()
    return Sharing(redis, known, bus, subscriptions)
