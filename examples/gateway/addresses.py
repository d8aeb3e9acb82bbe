"""The check of IP addresses that the gateway may connect to."""

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ALLOTTED = ipaddress.ip_network("2000::/3")
"""The public part of IPv6 (RFC 4291, section 2.4); other parts contain, for example, tunnels into IPv4."""

_NOT_PUBLIC = (
    ipaddress.ip_network("2002::/16"),  # 6to4: the address contains an IPv4 address (RFC 3056).
    ipaddress.ip_network("2001::/32"),  # Teredo: the address contains an IPv4 address (RFC 4380).
    ipaddress.ip_network("192.88.99.0/24"),  # Relays of 6to4 (RFC 7526).
    ipaddress.ip_network("192.0.0.0/24"),  # Python excludes this network only since 3.11.10 (RFC 6890).
    ipaddress.ip_network("168.63.129.16/32"),  # Azure's host, which gives each machine its own private data.
)


def is_public(address: Address) -> bool:
    """Return whether an address is public: not this machine, not its network, not a cloud's metadata service."""
    if any(address in network for network in _NOT_PUBLIC) or address.is_multicast or not address.is_global:
        return False
    return address.version == 4 or address in _ALLOTTED


def may_lead_to(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether the gateway may connect to an address: it is public or in one of the operator's networks."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return is_public(address) or any(address in network for network in networks)
