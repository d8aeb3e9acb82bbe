"""HTTP requests with wrong framing or with an upgrade to another protocol."""

import asyncio
import contextlib
import itertools
import time
from contextvars import ContextVar

import pytest
from starlette.types import Receive, Scope, Send

from conftest import until
from tests.attacks.conftest import Attack
from tests.damage.wire import handshake, reply, stateless
from tests.http.connections import Connections, app

_HEAD = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


_BROKEN = [b"zz\r\n", b"-5\r\n", b"10000000000000000\r\n", b"3\r\nabcdef\r\n", b"\r\n\r\n"]


@pytest.mark.parametrize("path", [b"/mcp", b"/jobs"])
def test_invalid_chunks(attack: Attack, path: bytes) -> None:
    """A replica answers an invalid chunk with 400 at once and frees the request's slot.

    An earlier request on the same connection still gets its reply. After this reply, the replica may close the
    connection without the 400.
    """
    replica = attack(RECEIVE_TIMEOUT_SECONDS="60", MAX_IN_FLIGHT="1")
    earlier = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    for chunk, before, split in itertools.product(_BROKEN, (b"", earlier), (False, True)):
        with replica.connect() as connection:
            connection.settimeout(5)
            connection.sendall(before + _HEAD % path + (b"" if split else chunk))
            if split:
                connection.sendall(b"2\r\nab\r\n" + chunk)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.count(b"HTTP/1.1 200 ") == bool(before)
        assert b"HTTP/1.1 400 " in answer or before
        assert b"HTTP/1.1 408 " not in answer
        with replica.connect() as connection:
            connection.sendall(handshake("ping"))
            assert reply(connection).startswith(b"HTTP/1.1 200 ")


def test_host_and_number_of_headers(attack: Attack) -> None:
    """HTTP/1.1 needs exactly one Host header (RFC 9112, section 3.2), HTTP/1.0 may have none; 200 headers are refused.

    A head of 64 KB has room for 16,000 headers, which would take megabytes of memory.
    """
    replica = attack()
    with replica.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 200)
        assert connection.recv(65536).startswith(b"HTTP/1.1 431 ")
    cases = [
        ("", "1.1", True),
        ("Host: a\r\nHost: a\r\n", "1.1", True),
        ("Host: a\r\nhost: b\r\n", "1.1", True),
        ("Host: localhost\r\n", "1.1", False),
        ("", "1.0", False),
        ("Host: a\r\nHost: b\r\n", "1.0", True),
    ]
    for path, (hosts, version, refused) in itertools.product(["/mcp", "/healthz", "/nowhere", "/jobs", "/"], cases):
        with replica.connect() as connection:
            connection.sendall(f"GET {path} HTTP/{version}\r\n{hosts}\r\n".encode())
            answer = connection.recv(65536)
        assert (b"Host header" in answer) == refused, (hosts, version, answer)
        assert answer.startswith(b"HTTP/1.1 400 ") == refused


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("family", ["handshake", "stateless"])
def test_an_upgrade_is_ignored(attack: Attack, family: str, *, chunked: bool) -> None:
    """A replica ignores an upgrade to HTTP/2, which Java's HttpClient asks for in its first request."""
    replica = attack()
    asks = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    ask = handshake("ping", **asks) if family == "handshake" else stateless("server/discover", {}, **asks)
    head, _, body = ask.partition(b"\r\n\r\n")
    if chunked:
        head = head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    with replica.connect() as connection:
        connection.settimeout(5)
        for pieces in ([head + b"\r\n\r\n" + body], [head + b"\r\n\r\n", body[:10], body[10:]]):
            for piece in pieces:
                connection.sendall(piece)
            assert b'"result":' in reply(connection)
        connection.sendall(ask + handshake("ping", {}, 2))
        both = b""
        while both.count(b'"result":') < 2:
            both += connection.recv(65536)


@pytest.mark.alone
def test_small_chunks_on_many_connections(attack: Attack) -> None:
    """Three million chunks of one byte, which take as long to parse as larger ones, do not delay other clients."""
    replica = attack()
    much = _HEAD % b"/mcp" + b"1\r\n \r\n" * 65_000
    with replica.connected(45) as connections, replica.beside_good_client(longest=0.2):
        for connection in connections:
            connection.sendall(much)
        for connection in connections:
            connection.sendall(b"0\r\n\r\n")
            assert reply(connection).startswith(b"HTTP/1.1 400 ")  # blanks are not JSON


@pytest.mark.alone
def test_heads_and_bodies_that_never_end(attack: Attack) -> None:
    """Slow clients that never complete a head, on more than MAX_CONNECTIONS connections, keep nobody out."""
    replica = attack(MAX_CONNECTIONS="100", RECEIVE_TIMEOUT_SECONDS="2")
    with replica.connected(125) as slow, replica.beside_good_client():
        for _ in range(25):
            for number, connection in enumerate(slow):
                with contextlib.suppress(OSError):
                    connection.send(b"GET /" if number % 2 else b"y")
            pause = time.monotonic() + 0.2
            until(lambda: time.monotonic() > pause, "0.2 s have passed")  # noqa: B023


_SEEN: ContextVar[str] = ContextVar("seen", default="")


@pytest.mark.anyio
async def test_each_request_begins_in_a_context_of_its_own() -> None:
    """No request, pipelined or on another connection, sees a context variable that another one has set."""
    found: list[str] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(_SEEN.get())
        _SEEN.set(scope["path"])
        await asyncio.sleep(0)
        await app(scope, receive, send)

    connections = Connections(note)
    protocols = [await connections.open() for _ in range(3)]
    for number, protocol in enumerate(protocols):
        protocol.data_received(b"".join(b"GET /%d/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (number, i) for i in range(20)))
    for number in range(3):
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 20:
            answer += await connections.heard(number)
    await connections.close()
    assert found == [""] * 60
