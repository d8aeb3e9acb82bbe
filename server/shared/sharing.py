"""What one replica shares with the others, put together by the settings."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from server import events
from server.config import Settings
from server.exchange import sdk
from server.mcp_app import McpApp
from server.shared.events import RedisBus
from server.shared.redis import connect
from server.shared.request_state import OneUse, note_state

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


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


@dataclass
class Sharing:
    """A replica's part in what is shared."""

    redis: "Redis | None"
    bus: SubscriptionBus | None
    """How change events travel; None if subscriptions aren't offered."""
    at_stop: list[Callable[[], None]] = field(default_factory=list)
    """Ends what a client would wait for without end."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take part meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            if self.redis is not None:
                stack.push_async_callback(self.redis.aclose)
            if isinstance(self.bus, RedisBus):
                await stack.enter_async_context(self.bus.running())
            yield


def sharing(settings: Settings, mcp_app: McpApp) -> Sharing:
    """Give a server what it shares with other replicas.

    Subscriptions are offered where an event reaches every listener: with Redis, or with a single replica. What isn't
    offered isn't in the reply to `server/discover` either, since the SDK derives that from the handlers.

    Raises:
        StartupError: REDIS_URL is none.
    """
    redis = connect(settings)
    low_level = sdk.low_level(mcp_app.mcp)
    if redis is not None:  # around FastMCP's boundary, which unseals the state, and within it
        low_level.middleware.insert(0, note_state)
        low_level.middleware.append(OneUse(redis, settings.request_state_seconds, settings.mcp_name))
        bus: SubscriptionBus | None = RedisBus(redis, f"{settings.mcp_name}:events")
    else:
        bus = InMemorySubscriptionBus() if settings.mcp_replicas == 1 else None
    share = Sharing(redis, bus)
    if bus is None:
        logger.info("Subscriptions are not offered: with several replicas they need REDIS_URL")
        return share
    events.use(bus)
    listen = Listening(bus)
    low_level.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
    share.at_stop.append(listen.close)
    return share
