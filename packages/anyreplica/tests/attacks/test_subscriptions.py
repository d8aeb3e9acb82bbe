"""Limits of subscriptions and of connections. A subscription uses its connection until the client ends it."""

import contextlib
import socket
from pathlib import Path

import httpx
import pytest

from anyreplica.features.keys.key import KeyEntry, hash_of
from conftest import until
from tests.attacks.conftest import Attack, Attacked
from tests.damage import wire


def listen(replica: Attacked, stack: contextlib.ExitStack, number: int, **headers: str) -> list[bytes]:
    """Open subscriptions that stay until the stack ends, and return the first bytes of each reply."""
    connections: list[socket.socket] = [stack.enter_context(replica.connect()) for _ in range(number)]
    for connection in connections:
        with contextlib.suppress(ConnectionError):
            connection.sendall(wire.listen(**headers))
    return [_beginning(connection) for connection in connections]


def _beginning(connection: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return connection.recv(65536)[:12]
    return b""


@pytest.mark.alone
def test_some_connections_are_kept_for_others(attack: Attack) -> None:
    """Subscriptions take at most three quarters of the connections; calls and probes are still answered."""
    replica = attack(MAX_CONNECTIONS="100")
    with contextlib.ExitStack() as stack, replica.beside_good_client():
        said = listen(replica, stack, 90)
        assert said.count(b"HTTP/1.1 200") == 75
        assert said.count(b"HTTP/1.1 503") == 15
        assert httpx.get(f"{replica.server.url}/healthz").status_code == 200


def test_more_subscriptions_than_the_limit_of_the_sdk(attack: Attack) -> None:
    """A replica may have more subscriptions than the SDK's own limit of 1,024."""
    replica = attack(MAX_SUBSCRIPTIONS="1100", MAX_CONNECTIONS="2000")
    with contextlib.ExitStack() as stack:
        listen(replica, stack, 1030)
        with replica.connect() as connection:
            connection.sendall(wire.listen())
            assert b"text/event-stream" in connection.recv(65536)


def test_subscriptions_beyond_the_limit_are_refused(attack: Attack) -> None:
    """Subscriptions beyond MAX_SUBSCRIPTIONS are refused, until the open ones end. So is one of more than 64 KB."""
    replica = attack(MAX_SUBSCRIPTIONS="3")
    uris = [f"x://{number}" for number in range(10_000)]
    with replica.connect() as connection:
        connection.sendall(wire.listen({"notifications": {"resourceSubscriptions": uris}}))
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the limit is 65536 bytes" in answer
    with contextlib.ExitStack() as stack:
        assert listen(replica, stack, 5).count(b"HTTP/1.1 200") == 3

    def opened() -> bool:
        with contextlib.ExitStack() as stack:
            return listen(replica, stack, 1) == [b"HTTP/1.1 200"]

    until(opened, "the replica accepts another subscription")


def test_subscriptions_count_against_the_limit_of_their_caller(attack: Attack, tmp_path: Path) -> None:
    """A subscription counts against its key's `concurrent`, or RATE_CONCURRENT, and other callers are served."""
    keys = tmp_path / "keys"
    entries = [
        KeyEntry(id="bound", hash=hash_of("one"), concurrent=2),
        KeyEntry(id="common", hash=hash_of("two")),
        KeyEntry(id="other", hash=hash_of("three")),
    ]
    keys.write_text("\n".join(entry.model_dump_json(exclude_none=True) for entry in entries))
    replica = attack(AUTH_ENABLED="true", API_KEYS_FILE=str(keys), RATE_CONCURRENT="4")
    with contextlib.ExitStack() as stack:
        for key, most in (("one", 2), ("two", 4)):
            said = listen(replica, stack, 6, Authorization=f"Bearer {key}")
            assert (said.count(b"HTTP/1.1 200"), said.count(b"HTTP/1.1 429")) == (most, 6 - most)
        with replica.connect() as connection:
            connection.sendall(wire.handshake("ping", Authorization="Bearer three"))
            assert b'"result":{}' in connection.recv(65536)


def test_connections_beyond_the_limit_are_refused(attack: Attack) -> None:
    """Beyond MAX_CONNECTIONS busy connections, each further one is refused, however many were refused before."""
    replica = attack(MAX_CONNECTIONS="40", MAX_IN_FLIGHT="100", MCP_COMPONENTS="server,tests.packs.hostile")
    call = wire.handshake("tools/call", {"name": "never_ends_by_default", "arguments": {}})
    with replica.connected(40) as busy:
        for connection in busy:
            connection.sendall(call)
        until(lambda: replica.connections == 40 and not replica.unread, "the replica has read all calls")
        with replica.connected(20) as more:
            for connection in more:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(call)
            assert {_beginning(connection) for connection in more} <= {b"HTTP/1.1 503", b""}
