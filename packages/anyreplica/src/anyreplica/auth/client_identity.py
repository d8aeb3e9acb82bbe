"""The identity of the client of a request, whose use of a limit a replica counts."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.types import Scope

from anyreplica.auth.caller import ANYBODY, caller_of

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_PROXIES = 32
"""Maximum number of entries of `X-Forwarded-For` that are read, from the right. A client can add any number."""

_LONGEST = 45
"""Maximum number of characters in an address: an IPv6 address that ends with an IPv4 address."""

_MAPPED_BITS = 96
"""Length of the prefix of IPv4-mapped IPv6 addresses, `::ffff:0:0/96` (RFC 4291, section 2.5.5.2)."""


class Addresses:
    """The client addresses that trusted proxies report. `trusted` lists addresses and networks of these proxies.

    Behind the mesh every connection has the mesh's own address, which is the same for all clients. Any client may send
    an `X-Forwarded-For` header, so this class uses the header only if a trusted proxy sent it.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = tuple(_network(text) for text in trusted)
        self._look_up = lru_cache(1024)(self._parse)

    def of(self, scope: Scope) -> str | None:
        """Return the last address in `X-Forwarded-For` that is not a trusted proxy.

        Return None if the connection does not come from a trusted proxy, or if the header contains no such address.
        """
        if not self._trusted or not scope["client"]:
            return None
        try:
            if self._untrusted(scope["client"][0]) is not None:
                return None
            forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            parts = forwarded.rsplit(b",", _MOST_PROXIES)[-_MOST_PROXIES:]
            addresses = (self._untrusted(part.decode("latin-1")) for part in reversed(parts))
            return next(filter(None, addresses), None)
        except ValueError:  # any client may have written the entries further left
            return None

    def _untrusted(self, text: str) -> str | None:
        """Return an address in its normal form, or None if it belongs to a trusted proxy.

        This method removes the zone (`%eth0`): it names a network interface of the sender, and may be any text.

        Raises:
            ValueError: the text is not an address.
        """
        address = text.partition("%")[0].strip()
        if len(address) > _LONGEST:
            raise ValueError("the text is too long for an address")
        return self._look_up(address)

    def _parse(self, text: str) -> str | None:
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        return None if any(address in network for network in self._trusted) else str(address)


def _network(text: str) -> _Network:
    """Return a network. Convert an IPv4-mapped IPv6 network into the IPv4 network."""
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


class ClientIdentities:
    """The identities of clients. `trusted` lists the proxies that name the address of a client without authentication.

    Every limit of one caller is counted under this identity.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._addresses = Addresses(trusted)

    def of(self, scope: Scope) -> str | None:
        """Return the identity of the caller, or the address of a client that does not authenticate.

        None: the replica cannot tell the client from others.
        """
        caller = caller_of(scope)
        return self._addresses.of(scope) if caller is None else caller.identity

    def share_of(self, scope: Scope) -> str:
        """Return the caller whose share of a limit a request uses.

        Without authentication, each client address has a share. If a proxy is in front of the replica and is not in
        TRUSTED_PROXIES, all clients of this proxy have one share together: that of the proxy's address.
        """
        client = scope.get("client")
        return self.of(scope) or (client[0] if client else ANYBODY)
