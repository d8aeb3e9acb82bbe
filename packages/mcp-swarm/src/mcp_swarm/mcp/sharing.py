"""What one replica shares with the others, put together by the settings."""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

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
from mcp_swarm.shared.peers import peers
from mcp_swarm.shared.redis import connect

logger = logging.getLogger(__name__)

_METHOD = "subscriptions/listen"


class Subscriptions(ListenHandler):
    """The method `subscriptions/listen`, which can be offered and withdrawn."""

    def __init__(self, mcp: FastMCP, bus: SubscriptionBus, most: int) -> None:
        super().__init__(bus, max_subscriptions=most)
        self._mcp = mcp
        self._closed = True

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream. Raises `MCPError` if nobody would end it."""
        if self._closed:
            raise MCPError(INTERNAL_ERROR, "This replica is stopping; listen again.")
        return await super().__call__(ctx, params)

    def offer(self) -> None:
        """Take subscriptions from now on."""
        self._closed = False
        _sdk.low_level(self._mcp).add_request_handler(_METHOD, SubscriptionsListenRequestParams, self)

    def withdraw(self) -> None:
        """Take none from now on, and end those that there are."""
        self.close()
        _sdk.withdraw_method(self._mcp, _METHOD)

    def close(self) -> None:
        """End all streams, each with its result."""
        self._closed = True
        super().close()


class Sharing:
    """A server's part in what replicas share.

    Subscriptions are offered where an event reaches every listener: with Redis, or with a single replica. What isn't
    offered isn't in the reply to `server/discover` either, since the SDK derives that from the handlers.

    Raises:
        StartupError: REDIS_URL can't be used.
    """

    def __init__(self, settings: Settings, mcp: FastMCP, replica: str) -> None:
        self.redis = connect(settings)
        self.peers = peers(settings, self.redis, replica)
        self.subscriptions: Subscriptions | None = None
        """None if they can't be offered, however many replicas there are."""
        self._bus: RedisBus | None = None
        if self.redis is not None:  # around FastMCP's boundary, which unseals the state, and within it
            middleware = _sdk.low_level(mcp).middleware
            middleware.insert(0, note_state)
            middleware.append(OneUse(self.redis, settings.request_state_seconds, settings.mcp_name))
            self._bus = RedisBus(self.redis, f"{settings.mcp_name}:events")
        elif settings.mcp_replicas > 1:
            logger.info("Subscriptions are not offered: with several replicas they need REDIS_URL")
            return
        bus = self._bus or InMemorySubscriptionBus()
        publish.use(bus)
        self.subscriptions = Subscriptions(mcp, bus, settings.subscriptions)
        self.subscriptions.offer()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            if self.redis is not None:
                stack.push_async_callback(self.redis.aclose)
            if self._bus is not None:
                await stack.enter_async_context(self._bus.running())
            await stack.enter_async_context(self.peers.running())
            yield
