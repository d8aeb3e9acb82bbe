"""Many requests on one connection, sent without waiting for replies. A client needs no key for this attack."""

import contextlib
import re
import selectors
import socket
import time

import pytest

from conftest import until
from tests.attacks.conftest import Attack
from tests.calls import get
from tests.damage.wire import handshake

REQUEST = b"GET /healthz HTTP/1.1\r\nHost:a\r\n\r\n"
_FLOOD = REQUEST * (256 * 1024 // len(REQUEST))
_ENDLESS = handshake("tools/call", {"name": "never_ends_by_default"})


def flood(connections: list[socket.socket], seconds: float) -> int:
    """Send pipelines over all connections, read the replies, and return the number of replies."""
    chosen = selectors.DefaultSelector()
    for connection in connections:
        connection.setblocking(False)
        chosen.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    replies, end = 0, time.monotonic() + seconds
    while chosen.get_map() and time.monotonic() < end:
        for key, events in chosen.select(0.1):
            open_connection = key.fileobj
            assert isinstance(open_connection, socket.socket)
            try:
                if events & selectors.EVENT_WRITE:
                    open_connection.send(_FLOOD)
                if events & selectors.EVENT_READ:
                    data = open_connection.recv(262_144)
                    replies += data.count(b"HTTP/1.1 200")
                    if not data:
                        chosen.unregister(open_connection)
            except BlockingIOError:
                continue
            except OSError:
                chosen.unregister(open_connection)
    return replies


@pytest.mark.alone
@pytest.mark.parametrize("number", [16, 64])
def test_other_clients_are_served(attack: Attack, number: int) -> None:
    """Pipelines of others delay a call by a turn of the event loop only, and neither memory nor watchdog suffers."""
    replica = attack(LOOP_STALL_SECONDS="2", MAX_REQUESTS_PER_CONNECTION="0")
    with replica.connected(number) as connections:
        before = replica.rss
        with replica.beside_good_client():
            assert flood(connections, 5) > number
        assert replica.peak < before + 60


def test_new_clients_find_room(attack: Attack) -> None:
    """A new client gets a reply although all connections wait for a call and have sent a request behind it."""
    replica = attack(MCP_COMPONENTS="server,tests.packs.hostile", MAX_CONNECTIONS="10")
    with contextlib.ExitStack() as stack:
        for _ in range(9):
            stack.enter_context(replica.connect()).sendall(_ENDLESS + REQUEST)
        metrics = f"{replica.server.url}/metrics"
        until(lambda: "\nmcp_requests_in_flight 9" in get(metrics).text, "nine requests are in flight")
        for _ in range(5):
            stack.enter_context(replica.connect()).sendall(_ENDLESS + REQUEST)
        with replica.connect() as connection:
            connection.sendall(REQUEST)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_waiting_requests_are_not_parsed(attack: Attack) -> None:
    """While a replica answers a request, it parses those behind it only within 2 KB, so they take little memory."""
    replica = attack(MCP_COMPONENTS="server,tests.packs.hostile", CALL_TIMEOUT_SECONDS="5")
    before = replica.rss
    with replica.connected(90) as connections:
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(_ENDLESS + _FLOOD)
        for connection in connections:
            connection.settimeout(30)
            assert re.match(rb"HTTP/1.1 (200|503) ", connection.recv(65536))
        assert replica.rss < before + 90
