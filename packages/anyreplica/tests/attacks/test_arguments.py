"""Arguments with many problems, request bodies with many values, and many of the largest bodies."""

import contextlib
import json
import socket
from typing import Any

import pytest

from tests.attacks.conftest import Attack, Attacked
from tests.damage.wire import handshake, http, post, reply, stateless

_UNKNOWN = {f"{number:x}": 1 for number in range(380_000)}
"""An object of 3.7 MB as JSON, with more values than a body may have."""

_MANY = {f"k{number}": 1 for number in range(40_000)}


def call(tool: str, arguments: dict[str, Any]) -> list[bytes]:
    """Return one call as a request of each protocol family."""
    params = {"name": tool, "arguments": arguments}
    return [handshake("tools/call", params), stateless("tools/call", params)]


def answers(replica: Attacked, requests: list[bytes], times: int = 6) -> list[bytes]:
    """Send each request `times` times at the same moment, always on a new connection, and return all replies."""
    with replica.connected(len(requests) * times) as connections:
        for connection, request in zip(connections, requests * times, strict=True):
            connection.sendall(request)
        return [reply(connection) for connection in connections]


@pytest.mark.alone
@pytest.mark.parametrize("arguments", [_UNKNOWN, _MANY])
@pytest.mark.parametrize("tool", ["echo", "export_data", "submit_job"])
def test_unknown_arguments(attack: Attack, tool: str, arguments: dict[str, Any]) -> None:
    """The error of each kind of tool lists ten of many unknown arguments, or says that the values are too many."""
    replica = attack()
    with replica.beside_good_client():
        given = {"job": "export_data", "arguments": arguments} if tool == "submit_job" else arguments
        said = answers(replica, call(tool, given))
    for answer in said:
        assert len(answer) < 64 * 1024
        assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 413 "))
        assert answer.count(b"unknown argument") in (10, 20) or b"MAX_BODY_VALUES" in answer  # text and structured


@pytest.mark.alone
@pytest.mark.parametrize("arguments", [_UNKNOWN, _MANY])
def test_unknown_params_of_a_submission(attack: Attack, arguments: dict[str, Any]) -> None:
    """A `POST /jobs` with many unknown names, beside the job's name or in its params, gets a small refusal."""
    replica = attack()
    bodies: list[Any] = [{"job": "export_data", "params": arguments}, {"job": "export_data", **arguments}]
    with replica.beside_good_client():
        written = [json.dumps(body, separators=(",", ":")).encode() for body in bodies]
        said = answers(replica, [post(body, path="/jobs") for body in written])
    for answer in said:
        assert len(answer) < 64 * 1024
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ", b"HTTP/1.1 422 ")), answer[:300]


@pytest.mark.alone
def test_wrong_values_within_one_argument(attack: Attack) -> None:
    """The error names only the first problem of a list with 90,000 wrong values."""
    replica = attack(MCP_COMPONENTS="server,tests.packs.lists")
    with replica.beside_good_client():
        said = answers(replica, call("total", {"numbers": ["x"] * 90_000}))
    for answer in said:
        assert b"numbers.0: Input should be a valid integer" in answer
        assert len(answer) < 2000


@pytest.mark.alone
@pytest.mark.parametrize("element", [b"[]", b"{}", b"1", b'{"a":1}', b'"x"', b'{"a":[{}]}'])
@pytest.mark.parametrize("kind", ["request", "notification", "response"])
def test_bodies_with_very_many_values(attack: Attack, element: bytes, kind: str) -> None:
    """The replica refuses a body of 4 MB with very many values before it parses the values."""
    dense = b"[" + b",".join([element] * (4_000_000 // (len(element) + 1))) + b"]"
    around = {
        "request": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":%b}}',
        "notification": b'{"jsonrpc":"2.0","method":"notifications/x","params":{"x":%b}}',
        "response": b'{"jsonrpc":"2.0","id":1,"result":{"x":%b}}',
    }[kind]
    replica = attack()
    with replica.beside_good_client(longest=0.5):
        said = answers(replica, [post(around % dense)])
    assert all(b"413" in answer[:20] and b"MAX_BODY_VALUES" in answer for answer in said), said[0][:300]


def test_text_of_any_kind_is_read(attack: Attack) -> None:
    """The replica accepts megabytes of text that is full of the characters that separate JSON values."""
    replica = attack()
    for text in ("a,b:[{" * 600_000, '{"a":["b",1]}' * 150_000, '\\"\\\\' * 400_000):
        (answer, other) = answers(replica, call("echo", {"message": text}), 1)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"] == text
        assert b"200 OK" in other[:20]


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
    with replica.beside_good_client(longest=1.0), replica.connected(_BODIES) as held:
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
