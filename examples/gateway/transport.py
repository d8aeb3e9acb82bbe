"""Connections to where a name may lead, and to nowhere else."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable

import httpx2
from fastmcp.exceptions import ToolError

from examples.gateway.addresses import Address, Network, may_lead_to


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Looks a name up, looks at all its addresses, and connects to one of those.

    So no later answer of a name server leads elsewhere ("DNS rebinding"). The certificate must be the name's as ever.

    Args:
        networks: that names may lead to, besides public addresses.
        verify: the certificates that are trusted; None: those of the machine.
    """

    def __init__(self, networks: Iterable[Network], verify: ssl.SSLContext | None = None) -> None:
        self._networks = tuple(networks)
        self._verify = verify or httpx2.create_ssl_context()
        # By name: a connection that was made for one name must not serve another that has the same address.
        self._pools: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first of its host's addresses that takes a connection.

        Raises:
            ToolError: the name leads to where it may not.
            httpx2.ConnectError: there is no such name, or no address takes a connection.
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
            return [ipaddress.ip_address(host)]  # which the operator wrote down: callers can't name a host
        except ValueError:
            pass
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(type(error).__name__) from None
        addresses = list(dict.fromkeys(ipaddress.ip_address(each[4][0]) for each in found))
        if not all(may_lead_to(address, self._networks) for address in addresses):
            raise ToolError(f"{host} leads to an address that isn't public, and isn't asked")
        return addresses


def _to(address: Address, request: httpx2.Request) -> httpx2.Request:
    """The same request, to an address; `Host` and the certificate's name stay what they were."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
