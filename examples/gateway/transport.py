"""An HTTP transport that connects only to allowed addresses."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable

import httpx2
from fastmcp.exceptions import ToolError

from examples.gateway.addresses import Address, Network, may_lead_to


class CheckedTransport(httpx2.AsyncBaseTransport):
    """A transport that resolves a name, checks all its addresses, and connects to one of the checked addresses.

    So a later reply of a name server can't redirect the connection ("DNS rebinding"). The certificate must still match
    the name.

    Args:
        networks: Private networks that names may resolve to, in addition to public addresses.
        verify: The trusted certificates; None: those of the machine.
    """

    def __init__(self, networks: Iterable[Network], verify: ssl.SSLContext | None = None) -> None:
        self._networks = tuple(networks)
        self._verify = verify or httpx2.create_ssl_context()
        # One pool per name: a connection for one name must not serve another name with the same address.
        self._pools: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of its host that accepts a connection.

        Raises:
            ToolError: The name resolves to an address that is not allowed.
            httpx2.ConnectError: The name does not resolve, or no address accepts a connection.
        """
        host = request.url.host
        pool = self._pools.get(host)
        if pool is None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            pool = self._pools[host] = httpx2.AsyncHTTPTransport(verify=self._verify, trust_env=False, limits=limits)
        error = httpx2.ConnectError("no address")
        for address in await self._addresses(host):
            try:
                return await pool.handle_async_request(_to(address, request))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as failed:
                error = httpx2.ConnectError(str(failed))
        raise error

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _addresses(self, host: str) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]  # The operator configured this address: callers can't set the host.
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(type(error).__name__) from None
        addresses = list(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in found))
        if not all(may_lead_to(address, self._networks) for address in addresses):
            raise ToolError(f"{host} resolves to an address that is not public (GATEWAY_PRIVATE_NETWORKS).")
        return addresses


def _to(address: Address, request: httpx2.Request) -> httpx2.Request:
    """Return the same request for an address; `Host` and the name for the certificate do not change."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
