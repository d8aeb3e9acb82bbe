"""Replies that nobody reads."""

import contextlib
import json
import socket
import time

import httpx
import pytest

from conftest import until
from tests.attacks.conftest import Attack, Attacked
from tests.attacks.test_pipelines import REQUEST

_PIPELINE = REQUEST * 5000

_ESTABLISHED = b"\x01"
"""First byte of TCP_INFO of an open connection."""


def deaf(replica: Attacked) -> socket.socket:
    """A connection whose client takes as little as it can."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", replica.server.port))
    return connection


def echo(size: int) -> bytes:
    """A call whose reply is twice as large as it says."""
    params = {"name": "echo", "arguments": {"message": "x" * size}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def has_ended(connection: socket.socket) -> bool:
    """Whether the replica has closed a connection; nothing is read of what waits there."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != _ESTABLISHED


@pytest.mark.alone
def test_new_clients_find_room(attack: Attack) -> None:
    """More connections than there may be, none of which reads its replies or is closed by its client."""
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
            until(lambda: replica.connections <= 1, "who doesn't read is cut")
            assert httpx.get(f"{replica.server.url}/healthz").status_code == 200
    assert replica.peak < before + 60


@pytest.mark.alone
def test_what_is_unsent_is_bounded(attack: Attack) -> None:
    """Large replies, over all connections: the client that has read nothing for longest is cut."""
    replica = attack(SEND_TIMEOUT_SECONDS="60")
    request = echo(3_000_000)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(deaf(replica)) for _ in range(50)]
        with replica.beside_good_client():
            for connection in connections:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(request)
            until(lambda: sum(has_ended(each) for each in connections) >= 5, "some are cut")
        assert not all(has_ended(each) for each in connections)


def test_a_reply_is_in_flight_until_it_is_taken(attack: Attack) -> None:
    """So that a bound of calls is one of replies, too."""
    replica = attack(MAX_IN_FLIGHT="3", SEND_TIMEOUT_SECONDS="5")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(deaf(replica)).sendall(echo(3_000_000))

        def call() -> httpx.Response:
            headers = {"Content-Type": "application/json"}
            return httpx.post(f"{replica.server.url}/mcp", content=echo(1).partition(b"\r\n\r\n")[2], headers=headers)

        until(lambda: call().status_code == 503, "three replies are in flight")
        until(lambda: call().status_code == 200, "they are given up")


@pytest.mark.alone
def test_a_slow_reader_is_not_cut(attack: Attack) -> None:
    """One that takes its reply over three times the time in which it must take some of it."""
    replica = attack(SEND_TIMEOUT_SECONDS="2")
    with deaf(replica) as connection:
        connection.sendall(echo(3_000_000))
        size, begun = 0, time.monotonic()
        while size < 6_000_000:
            part = connection.recv(65536)
            assert part, f"cut after {size} bytes"
            size += len(part)
            until(lambda: time.monotonic() - begun > 6 * size / 6_000_000, "its pace")  # noqa: B023


def test_a_connection_that_is_closing_is_cut(attack: Attack) -> None:
    """One whose last reply nobody reads."""
    replica = attack(SEND_TIMEOUT_SECONDS="2")
    with deaf(replica) as connection:
        connection.sendall(echo(3_000_000).replace(b"Host:", b"Connection: close\r\nHost:"))
        until(lambda: replica.connections == 0, "it is cut")
