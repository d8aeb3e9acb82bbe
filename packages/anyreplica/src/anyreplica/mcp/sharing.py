"""The connections of a replica to the other replicas, set up from the settings: Redis, subscriptions and peers."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastmcp import FastMCP
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp_types import INTERNAL_ERROR, SubscriptionsListenRequestParams, SubscriptionsListenResult

from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.request_state import OneUse, note_state
from anyreplica.settings import CoreSettings
from anyreplica.shared import publish
from anyreplica.shared.events import RedisBus
from anyreplica.shared.peers import peers
from anyreplica.shared.redis import connect

logger = logging.getLogger(__name__)

_METHOD = "subscriptions/listen"


class Subscriptions(ListenHandler):
    """The handler of `subscriptions/listen`, until `close`."""

    def __init__(self, bus: SubscriptionBus, most: int) -> None:
        super().__init__(bus, max_subscriptions=most)
        self._closed = False

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one event stream.

        Raises:
            MCPError: subscriptions are closed, so nothing would end the stream.
        """
        if self._closed:
            raise MCPError(INTERNAL_ERROR, f"This replica has closed its subscriptions; send {_METHOD} again.")
        return await super().__call__(ctx, params)

    def end_streams(self) -> None:
        """End all open event streams, each with its result. Clients may open new ones."""
        super().close()

    def close(self) -> None:
        """End all event streams, each with its result, and refuse new ones."""
        self._closed = True
        self.end_streams()


class Sharing:
    """The connections of one replica to the others.

    The server offers subscriptions only if an event reaches every listener: with Redis, or with a single replica.

    Raises:
        StartupError: REDIS_URL cannot be used.
    """

    def __init__(self, settings: CoreSettings, mcp: FastMCP, replica: str) -> None:
        if settings.replicas_dns and not settings.request_state_ring:
            text = "Multi-round tools work with a single replica only: more replicas need the same REQUEST_STATE_KEYS"
            logger.warning(text)
        self.redis = connect(settings)
        self.peers = peers(settings, self.redis, replica)
        self.close_streams: Callable[[], None] = lambda: None
        """Ends all event streams of subscriptions."""
        self.bus: SubscriptionBus | None = None
        """The change events of all replicas; None if this replica does not get those of the others."""
        self._bus: RedisBus | None = None
        if self.redis is not None:
            # The boundary unseals request states. One middleware must run before it, the other one after it.
            middleware = sdk.low_level(mcp).middleware
            if any(isinstance(each, RequestStateBoundary) for each in middleware):
                middleware.insert(0, note_state)
                middleware.append(OneUse(self.redis, settings.request_state_seconds, settings.mcp_name))
            self._bus = RedisBus.of(self.redis, settings.mcp_name)
        elif not settings.is_single:
            logger.info("Subscriptions are disabled: with more than one replica they need REDIS_URL")
            if isinstance(mcp, SdkServer) and not mcp.listens_over(None):
                self.close_streams = mcp.close_streams
            return
        bus = self.bus = self._bus or InMemorySubscriptionBus()
        publish.use_bus(bus)
        if isinstance(mcp, SdkServer) and not mcp.listens_over(bus):
            self.close_streams = mcp.close_streams
            return
        subscriptions = Subscriptions(bus, settings.subscriptions)
        if isinstance(mcp, SdkServer):
            mcp.end_streams_with(subscriptions.end_streams)
        sdk.low_level(mcp).add_request_handler(_METHOD, SubscriptionsListenRequestParams, subscriptions)
        self.close_streams = subscriptions.close

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the connections open inside the `async with` block."""
        async with contextlib.AsyncExitStack() as stack:
            if self.redis is not None:
                stack.push_async_callback(self.redis.aclose)
            if self._bus is not None:
                await stack.enter_async_context(self._bus.running())
            await stack.enter_async_context(self.peers.running())
            yield
