"""Where a request comes from, as far as that can be believed."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.types import Scope

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MOST_PROXIES = 32
"""Entries of `X-Forwarded-For` that are read, from the right. A caller decides how long the rest is."""
_LONGEST = 45
"""Characters of an address: an IPv6 address that ends with an IPv4 one."""
_MAPPED_BITS = 96
"""Of the prefix of IPv4-mapped IPv6 addresses, `::ffff:0:0/96` (RFC 4291, section 2.5.5.2)."""


class Addresses:
    """Tells callers' addresses by what trusted proxies (addresses and networks) say.

    Behind the mesh every connection comes from the mesh's own address, which doesn't tell callers apart. Anybody may
    send an `X-Forwarded-For` header, so it is believed only if a trusted proxy sent it.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = tuple(_network(text) for text in trusted)
        self._look_up = lru_cache(1024)(self._parse)

    def of(self, scope: Scope) -> str | None:
        """The last address in `X-Forwarded-For` that no trusted proxy has; None unless a trusted one sent it."""
        if not self._trusted or not scope["client"]:
            return None
        try:
            if self._untrusted(scope["client"][0]) is not None:
                return None
            said = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            parts = said.rsplit(b",", _MOST_PROXIES)[-_MOST_PROXIES:]
            addresses = (self._untrusted(part.decode("latin-1")) for part in reversed(parts))
            return next(filter(None, addresses), None)
        except ValueError:  # what is left of it may be anybody's
            return None

    def _untrusted(self, text: str) -> str | None:
        """An address, always in the same spelling; None if a trusted proxy has it; a ValueError if it is none.

        The zone (`%eth0`) is dropped: it names an interface of the sender's, and may be any text.
        """
        address = text.partition("%")[0].strip()
        if len(address) > _LONGEST:
            raise ValueError("too long for an address")
        return self._look_up(address)

    def _parse(self, text: str) -> str | None:
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        return None if any(address in network for network in self._trusted) else str(address)


def _network(text: str) -> _Network:
    """A network; the IPv4 one if it is written as IPv4-mapped IPv6."""
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_BITS))
    return network
