"""Replies that the client does not read."""

import contextlib
import socket
import time

import httpx
import pytest

from conftest import until
from tests.attacks.conftest import Attack
from tests.attacks.test_pipelines import REQUEST
from tests.calls import legacy
from tests.damage.wire import echo

_PIPELINE = REQUEST * 5000
_LARGE = echo("x" * 3_000_000)
"""A call with a reply of 6 MB: the reply contains the text twice."""

_ROOM = 2048
"""The smallest possible receive buffer, in bytes."""
_ESTABLISHED = b"\x01"
"""First byte of TCP_INFO for an open connection."""


def has_ended(connection: socket.socket) -> bool:
    """Return whether the replica has closed a connection. This function does not read the received bytes."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != _ESTABLISHED


@pytest.mark.alone
def test_new_clients_find_room(attack: Attack) -> None:
    """The replica closes connections that nobody reads, so that more than MAX_CONNECTIONS keep no client out."""
    timeouts = {"KEEP_ALIVE_SECONDS": "3", "RECEIVE_TIMEOUT_SECONDS": "2", "SEND_TIMEOUT_SECONDS": "3"}
    replica = attack(MAX_CONNECTIONS="50", **timeouts)
    before = replica.rss
    with replica.connected(45, _ROOM) as connections:
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(_PIPELINE)
        with replica.beside_good_client(), replica.connected(13, _ROOM) as more:
            for connection in more:
                connection.setblocking(False)
                with contextlib.suppress(OSError):
                    connection.send(_PIPELINE)
            until(lambda: replica.connections <= 1, "the replica closes the connections that are not read")
            assert httpx.get(f"{replica.server.url}/healthz").status_code == 200
    assert replica.peak < before + 60


@pytest.mark.alone
def test_unsent_replies_have_a_limit(attack: Attack) -> None:
    """Beyond a limit of unsent replies, the replica disconnects some clients that read nothing, but not all."""
    replica = attack(SEND_TIMEOUT_SECONDS="60")
    with replica.connected(50, _ROOM) as connections:
        with replica.beside_good_client():
            for connection in connections:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(_LARGE)
            until(lambda: sum(has_ended(each) for each in connections) >= 5, "the replica has closed five connections")
        assert not all(has_ended(each) for each in connections)


def test_a_call_is_in_flight_until_its_reply_is_read(attack: Attack) -> None:
    """A call counts for MAX_IN_FLIGHT until its client has read the reply or has been disconnected."""
    replica = attack(MAX_IN_FLIGHT="3", SEND_TIMEOUT_SECONDS="5")
    with replica.connected(3, _ROOM) as connections:
        for number, connection in enumerate(connections, 1):  # large bodies in transit take half of the slots only
            connection.sendall(_LARGE)
            gauge = f"mcp_requests_in_flight {number}.0"
            until(lambda: gauge in httpx.get(f"{replica.server.url}/metrics").text, gauge)  # noqa: B023

        def call() -> httpx.Response:
            return legacy(replica.server.url, "tools/call", {"name": "echo", "arguments": {"message": "x"}})

        until(lambda: call().status_code == 503, "the replica refuses a fourth call")
        until(lambda: call().status_code == 200, "the replica accepts calls again")


@pytest.mark.alone
def test_a_slow_reader_is_not_cut(attack: Attack) -> None:
    """A client that reads steadily may take three times SEND_TIMEOUT_SECONDS for its whole reply."""
    replica = attack(SEND_TIMEOUT_SECONDS="2")
    with replica.connect(_ROOM) as connection:
        connection.sendall(_LARGE)
        size, begun = 0, time.monotonic()
        while size < 6_000_000:
            part = connection.recv(65536)
            assert part, f"the replica closed the connection after {size} bytes"
            size += len(part)
            until(lambda: time.monotonic() - begun > 6 * size / 6_000_000, "the time for this part has passed")  # noqa: B023


def test_a_connection_that_is_closing_is_cut(attack: Attack) -> None:
    """A replica disconnects a client that does not read the last reply of a closing connection."""
    replica = attack(SEND_TIMEOUT_SECONDS="2")
    with replica.connect(_ROOM) as connection:
        connection.sendall(_LARGE.replace(b"Host:", b"Connection: close\r\nHost:"))
        until(lambda: replica.connections == 0, "the replica closes the connection")
