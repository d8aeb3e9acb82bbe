"""Where a request comes from, as far as that can be believed."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from starlette.types import Scope

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Addresses:
    """Tells callers' addresses by what trusted proxies say.

    Behind the mesh every connection comes from the mesh's own address, which tells nothing; and a header that anybody
    may send tells less.

    Args:
        trusted: addresses and networks of proxies.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = tuple(ipaddress.ip_network(network) for network in trusted)
        self._is_trusted = lru_cache(1024)(self._look_up)

    def of(self, scope: Scope) -> str | None:
        """The last address in `X-Forwarded-For` that no trusted proxy has; None unless a trusted one sent it."""
        if not self._trusted or not scope["client"]:
            return None
        try:
            if not self._is_trusted(scope["client"][0]):
                return None
            said = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            for part in reversed(said.decode("latin-1").split(",")):
                address = part.strip()
                if not self._is_trusted(address):
                    return str(ipaddress.ip_address(address))
        except ValueError:  # what is left of it may be anybody's
            return None
        return None

    def _look_up(self, text: str) -> bool:
        """
        Raises:
            ValueError: it is no address.
        """
        address = ipaddress.ip_address(text)
        return any(address in network for network in self._trusted)
