"""Which addresses a name may lead to."""

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ALLOTTED = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given out as public (RFC 4291, section 2.4); beyond it are, among others, ways into IPv4."""

_NOT_PUBLIC = (
    ipaddress.ip_network("2002::/16"),  # 6to4: an IPv4 address within (RFC 3056)
    ipaddress.ip_network("2001::/32"),  # Teredo: the same (RFC 4380)
    ipaddress.ip_network("192.88.99.0/24"),  # 6to4's relays (RFC 7526)
    ipaddress.ip_network("192.0.0.0/24"),  # Python's own list has it since 3.11.10 only (RFC 6890)
    ipaddress.ip_network("168.63.129.16/32"),  # Azure's host, which answers each machine with what is its own
)


def is_public(address: Address) -> bool:
    """Whether an address is anybody's to call: not this machine, its network, or a cloud's metadata."""
    if any(address in network for network in _NOT_PUBLIC) or address.is_multicast or not address.is_global:
        return False
    return address.version == 4 or address in _ALLOTTED


def may_lead_to(address: Address, networks: Iterable[Network]) -> bool:
    """Whether a name may lead there: if it is public, or in one of the operator's networks."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return is_public(address) or any(address in network for network in networks)
