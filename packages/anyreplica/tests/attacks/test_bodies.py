"""A hundred request bodies of the maximum size at the same time."""

import contextlib
import socket

import pytest

from tests.attacks.conftest import Attack
from tests.damage.wire import http, post, reply

_BODIES = 100
_BYTES = 4 * 1024 * 1024
"""Size of a body in bytes, equal to MAX_BODY_BYTES."""
_MOST_MB = 400
"""Maximum growth of memory, in MB; all bodies together would take slightly more."""
_SENT = b" " * _BYTES


@pytest.mark.alone
@pytest.mark.parametrize("paths", [("/mcp",), ("/jobs",), ("/mcp", "/jobs")], ids=["mcp", "jobs", "both"])
def test_the_largest_bodies(attack: Attack, paths: tuple[str, ...]) -> None:
    """Of a hundred bodies that lack their last byte, a replica refuses half: all routes share one memory limit."""
    replica = attack()
    before = replica.rss
    with replica.beside_good_client(longest=1.0), contextlib.ExitStack() as stack:
        held = [stack.enter_context(replica.connect()) for _ in range(_BODIES)]
        for number, connection in enumerate(held):
            _send(connection, post(_SENT, paths[number % len(paths)])[:-1])
        statuses = [_status(connection) for connection in held]
        assert statuses.count(503) >= _BODIES // 2
        assert set(statuses) <= {503, None}
        assert replica.peak - before < _MOST_MB
    with replica.connect() as connection:  # the replica has freed all of the memory
        connection.sendall(http("GET", "/readyz"))
        assert b" 200 " in reply(connection)


def _send(connection: socket.socket, request: bytes) -> None:
    """Send as much as the replica accepts: after a refusal, it stops reading or closes the connection."""
    connection.settimeout(0.3)
    with contextlib.suppress(OSError):
        connection.sendall(request)


def _status(connection: socket.socket) -> int | None:
    """Return the status of a reply, or None if no reply has come yet."""
    connection.settimeout(0.05)
    try:
        return int(connection.recv(65536).split(b" ", 2)[1])
    except TimeoutError:
        return None
    except (OSError, IndexError):
        return 503  # the reply was lost with the connection
