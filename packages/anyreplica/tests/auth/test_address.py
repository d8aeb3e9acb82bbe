"""The client's address of a request, with and without proxies."""

import ipaddress
import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.auth.client_identity import Addresses
from conftest import Server
from tests.calls import legacy


def scope(client: str | None, *forwarded: bytes) -> dict[str, object]:
    """Return the parts of an ASGI scope that determine the address."""
    headers = [(b"x-forwarded-for", value) for value in forwarded]
    return {"client": (client, 5000) if client else None, "headers": headers}


@pytest.mark.parametrize(
    ("client", "forwarded", "expected"),
    [
        ("10.0.0.7", [b"203.0.113.5"], "203.0.113.5"),
        ("10.0.0.7", [b"6.6.6.6, 203.0.113.5"], "203.0.113.5"),  # the first entry may come from anybody
        ("10.0.0.7", [b"6.6.6.6, 203.0.113.5, 10.0.0.8"], "203.0.113.5"),
        ("10.0.0.7", [b"6.6.6.6", b"203.0.113.5"], "203.0.113.5"),
        ("10.0.0.7", [b"2001:DB8::1"], "2001:db8::1"),
        ("10.0.0.7", [b"203.0.113.5, nonsense, 10.0.0.8"], None),
        ("10.0.0.7", [b"10.0.0.8"], None),
        ("10.0.0.7", [b""], None),
        ("10.0.0.7", [], None),
        ("203.0.113.5", [b"198.51.100.1"], None),  # not a trusted proxy: its header does not count
        ("127.0.0.1", [b"198.51.100.1"], None),
        (None, [b"198.51.100.1"], None),
    ],
)
def test_only_trusted_proxies_are_believed(client: str | None, forwarded: list[bytes], expected: str | None) -> None:
    """X-Forwarded-For counts only from a trusted proxy, and only its last address that is no trusted proxy.

    By default, the server trusts no proxy.
    """
    assert Addresses(["10.0.0.0/8", "::1"]).of(scope(client, *forwarded)) == expected
    assert Addresses([]).of(scope(client, *forwarded)) is None


@pytest.mark.parametrize(
    ("trusted", "client", "forwarded", "expected"),
    [
        ("127.0.0.0/8", "127.0.0.1", b"::ffff:1.2.3.4", "1.2.3.4"),
        ("127.0.0.0/8", "127.0.0.1", b"::FFFF:102:304", "1.2.3.4"),
        ("127.0.0.0/8", "127.0.0.1", b"::ffff:1.2.3.4%eth0", "1.2.3.4"),
        ("127.0.0.0/8", "127.0.0.1", b"6.6.6.6, 1.2.3.4, ::ffff:127.0.0.1", "1.2.3.4"),
        ("127.0.0.0/8", "::ffff:127.0.0.1%lo", b"1.2.3.4", "1.2.3.4"),
        *(
            (network, client, b"1.2.3.4", "1.2.3.4")
            for network in ("127.0.0.0/8", "::ffff:127.0.0.0/104", "::ffff:7f00:1", "127.0.0.1")
            for client in ("127.0.0.1", "::ffff:127.0.0.1")
        ),
        ("::/0", "::ffff:127.0.0.1", b"1.2.3.4", None),
        ("0.0.0.0/0", "::1", b"1.2.3.4", None),
    ],
)
def test_ipv4_in_ipv6_is_ipv4(trusted: str, client: str, forwarded: bytes, expected: str | None) -> None:
    """IPv4 within IPv6 is IPv4, for callers, proxies and networks. A network of one has no address of the other."""
    assert Addresses([trusted]).of(scope(client, forwarded)) == expected


@pytest.mark.parametrize("zone", [b"%eth0", b"%1", b"%", b"%anything", b"%\xe9", b"%a%b", b"%" + b"z" * 60_000])
def test_a_zone_makes_no_new_caller(zone: bytes) -> None:
    """A zone in an address does not make a new caller, whatever its text is."""
    addresses = Addresses(["fe80::a"])
    assert addresses.of(scope("fe80::a%eth0", b"fe80::1" + zone)) == "fe80::1"
    assert addresses.of(scope("fe80::a", b"fe80::1, fe80::a" + zone)) == "fe80::1"


def test_zones_fill_no_memory() -> None:
    """The server keeps an address in memory without its zone."""
    addresses = Addresses(["127.0.0.1"])
    tracemalloc.start()
    try:
        for number in range(500):
            addresses.of(scope("127.0.0.1", b"fe80::1%%%d" % number + b"z" * 10_000))
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_long_header_is_not_read_as_a_whole() -> None:
    """The server reads at most 32 entries of a long header, even if all of them are trusted proxies."""
    addresses = Addresses(["10.0.0.0/8"])
    proxies = [b"10.1.%d.%d" % divmod(number, 256) for number in range(5000)]
    with patch.object(ipaddress, "ip_address", wraps=ipaddress.ip_address) as parse:
        assert addresses.of(scope("10.0.0.7", b"6.6.6.6," + b",".join(proxies))) is None
    assert parse.call_count == 33, "the replica reads the peer and 32 entries"
    assert addresses.of(scope("10.0.0.7", b",".join([b"6.6.6.6", *proxies[:31]]))) == "6.6.6.6"


@given(st.lists(st.binary(max_size=40), max_size=4), st.sampled_from(["10.1.2.3", "8.8.8.8", "unix", "", "::1"]))
def test_no_header_causes_an_error(forwarded: list[bytes], client: str) -> None:
    """A header with any content is ignored or used, but never causes an error."""
    try:
        Addresses(["10.0.0.0/8", "::1"]).of(scope(client, *forwarded))
    except ValueError:
        pytest.fail("the header caused a ValueError")


def test_callers_behind_a_proxy_have_rates_of_their_own(start_server: Callable[..., Server]) -> None:
    """Each address behind a trusted proxy has its own rate limit. Without trusted proxies, all of them share one."""

    def statuses(server: Server, *addresses: str) -> list[int]:
        headers: list[dict[str, Any]] = [{"X-Forwarded-For": each} for each in addresses]
        return [legacy(server.url, "tools/list", **each).status_code for each in headers]

    rate = {"RATE_LIMIT": "1/h", "RATE_BURST": "1"}
    trusting = start_server(TRUSTED_PROXIES="127.0.0.1", **rate)
    asked = ("203.0.113.1", "203.0.113.2", "203.0.113.1", "9.9.9.9, 203.0.113.1")
    assert statuses(trusting, *asked) == [200, 200, 429, 429]
    strict = start_server(**rate)
    assert statuses(strict, "203.0.113.1", "203.0.113.2") == [200, 429]
    assert legacy(strict.url, "ping").status_code == 429
