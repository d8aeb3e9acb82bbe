"""The servers that proxies in the same process reach (`create_proxy(server)`).

FastMCP gives such a server the calls of a proxy as those of any client. Only a client of the proxy shows which server
it reaches, and a proxy makes a new client for each request.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from weakref import WeakSet

from fastmcp import FastMCP
from fastmcp.server.providers import Provider

from anyreplica.auth.visibility import note_proxied_request

_PROXIES = "fastmcp.server.providers.proxy"
"""Its import takes a second, which a server without proxies saves."""
_MEMORY = "fastmcp.client.transports.memory"


class WatchedClients:
    """Makes the clients of a proxy, as the proxy's own `client_factory` does.

    Args:
        make: the proxy's own factory.
        limit: called with each server of this process that a client reaches, before the client is used.

    Attributes:
        servers: the servers that clients have reached.
    """

    def __init__(self, make: Callable[[], Any], limit: Callable[[FastMCP], None]) -> None:
        self.make = make
        self.limit = limit
        self.servers: WeakSet[FastMCP] = WeakSet()

    def __call__(self) -> Any:
        """Return a client, or what the proxy has to await for it."""
        note_proxied_request()
        client = self.make()
        return self._awaited(client) if inspect.isawaitable(client) else self._watched(client)

    async def _awaited(self, client: Awaitable[Any]) -> Any:
        return self._watched(await client)

    def _watched(self, client: Any) -> Any:
        transport = getattr(client, "transport", None)
        if isinstance(transport, sys.modules[_MEMORY].FastMCPTransport) and isinstance(transport.server, FastMCP):
            self.servers.add(transport.server)
            self.limit(transport.server)
        return client


def watch(provider: Provider, limit: Callable[[FastMCP], None]) -> None:
    """Call `limit` with each server of this process that a provider reaches, if it is a proxy. This may be repeated."""
    if _PROXIES not in sys.modules or not isinstance(provider, sys.modules[_PROXIES].ProxyProvider):
        return
    make = provider.client_factory
    if isinstance(make, WatchedClients):
        if make.limit == limit:
            return
        make = make.make
    # The tools that a proxy has listed before have the other factory. It lists them again for the next call plans.
    provider.client_factory = WatchedClients(make, limit)


def servers_behind(provider: Provider) -> Iterable[FastMCP]:
    """Return the servers of this process that a proxy has reached. Other providers have none."""
    factory = getattr(provider, "client_factory", None)
    return list(factory.servers) if isinstance(factory, WatchedClients) else ()
