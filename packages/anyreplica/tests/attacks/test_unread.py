"""Replies that the client does not read."""

import contextlib
import socket
import time

import httpx
import pytest

from conftest import until
from tests.attacks.conftest import Attack, Attacked
from tests.attacks.test_pipelines import REQUEST
from tests.calls import legacy
from tests.damage.wire import echo

_PIPELINE = REQUEST * 5000
_LARGE = echo("x" * 3_000_000)
"""A call with a reply of 6 MB: the reply contains the text twice."""

_ESTABLISHED = b"\x01"
"""First byte of TCP_INFO for an open connection."""


def deaf(replica: Attacked) -> socket.socket:
    """Return a connection with the smallest possible receive buffer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", replica.server.port))
    return connection


def has_ended(connection: socket.socket) -> bool:
    """Return whether the replica has closed a connection. This function does not read the received bytes."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != _ESTABLISHED


@pytest.mark.alone
def test_new_clients_find_room(attack: Attack) -> None:
    """The replica closes connections that nobody reads, so that more than MAX_CONNECTIONS keep no client out."""
    replica = attack(
        MAX_CONNECTIONS="50", KEEP_ALIVE_SECONDS="3", RECEIVE_TIMEOUT_SECONDS="2", SEND_TIMEOUT_SECONDS="3"
    )
    before = replica.rss
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(deaf(replica)) for _ in range(45)]
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(_PIPELINE)
        with replica.beside_good_client():
            more = [stack.enter_context(deaf(replica)) for _ in range(13)]
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
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(deaf(replica)) for _ in range(50)]
        with replica.beside_good_client():
            for connection in connections:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(_LARGE)
            until(lambda: sum(has_ended(each) for each in connections) >= 5, "the replica has closed five connections")
        assert not all(has_ended(each) for each in connections)


def test_a_call_is_in_flight_until_its_reply_is_read(attack: Attack) -> None:
    """A call counts for MAX_IN_FLIGHT until its client has read the reply or has been disconnected."""
    replica = attack(MAX_IN_FLIGHT="3", SEND_TIMEOUT_SECONDS="5")
    with contextlib.ExitStack() as stack:
        for number in range(3):  # one by one, because large bodies in transit may take at most half of the slots
            stack.enter_context(deaf(replica)).sendall(_LARGE)
            gauge = f"mcp_requests_in_flight {number + 1}.0"
            until(lambda: gauge in httpx.get(f"{replica.server.url}/metrics").text, gauge)  # noqa: B023

        def call() -> httpx.Response:
            return legacy(replica.server.url, "tools/call", {"name": "echo", "arguments": {"message": "x"}})

        until(lambda: call().status_code == 503, "the replica refuses a fourth call")
        until(lambda: call().status_code == 200, "the replica accepts calls again")


@pytest.mark.alone
def test_a_slow_reader_is_not_cut(attack: Attack) -> None:
    """A client that reads steadily may take three times SEND_TIMEOUT_SECONDS for its whole reply."""
    replica = attack(SEND_TIMEOUT_SECONDS="2")
    with deaf(replica) as connection:
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
    with deaf(replica) as connection:
        connection.sendall(_LARGE.replace(b"Host:", b"Connection: close\r\nHost:"))
        until(lambda: replica.connections == 0, "the replica closes the connection")
