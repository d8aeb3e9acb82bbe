"""Tests of HTTP/1.1 on the socket: the bytes of the replies, their order, and the end of connections."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import threading
import time

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from conftest import Server, StartServer, until
from tests.calls import call, legacy, text
from tests.damage.wire import declared, echo, reply
from tests.http.connections import Connections, app


def connect(server: Server) -> socket.socket:
    """Return a new connection to a server."""
    return socket.create_connection(("127.0.0.1", server.port), 60)


def rest(connection: socket.socket) -> bytes:
    """Return all data until the server closes the connection. Fail if the server resets the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def read(connection: socket.socket, count: int) -> bytes:
    """Read from the connection until `count` replies have arrived."""
    answer = b""
    while answer.count(b'"isError":false') < count:
        part = connection.recv(65536)
        assert part, answer
        answer += part
    return answer


def test_a_long_pipeline_is_answered(local_replicas: Server) -> None:
    """A pipeline of 701 requests is answered in order, then the connection closes (RFC 9112, section 9.3.2)."""
    with connect(local_replicas) as connection:
        requests = [echo(f"m{number}", 1, number) for number in range(700)]
        pipeline = b"".join([*requests, echo("last", 1, 700, Connection="close")])
        sending = threading.Thread(target=connection.sendall, args=(pipeline,))
        sending.start()
        answer = rest(connection)
        sending.join()
    assert re.findall(rb'"id":(\d+),', answer) == [b"%d" % number for number in range(701)]


def test_replies_of_all_kinds_keep_their_order(local_replicas: Server) -> None:
    """Replies of the fast path and of the other routes keep the order of their requests in a pipeline."""
    get = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n"
    with connect(local_replicas) as connection:
        asked = [
            echo("first"),
            get % (b"HEAD", b"/nowhere", b"keep-alive"),
            get % (b"GET", b"/nowhere", b"keep-alive"),
            echo("second", 1, 2),
            get % (b"GET", b"/version", b"close"),
        ]
        connection.sendall(b"".join(asked))
        answer = rest(connection)
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"404", b"404", b"200", b"200"]
    assert answer.index(b'"text":"first"') < answer.index(b"404") < answer.index(b'"text":"second"')
    assert answer.endswith(b"}")
    assert b'"paths"' in answer


def test_many_requests_at_once_are_answered_separately(start_server: StartServer) -> None:
    """Of many requests that arrive at once, each is answered; invalid HTTP affects only its own connection."""
    server = start_server(MAX_IN_FLIGHT="200")  # Before Python 3.12 all calls start before the first reply.
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(server)) for _ in range(200)]
        os.kill(server.process.pid, signal.SIGSTOP)  # All requests arrive before the process reads.
        for number, connection in enumerate(connections):
            connection.sendall(echo(f"m{number}", 1, number) if number % 10 else b"no HTTP\r\n\r\n")
        os.kill(server.process.pid, signal.SIGCONT)
        for number, connection in enumerate(connections):
            if number % 10:
                assert b'"text":"m%d"' % number in read(connection, 1)
            else:
                assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_request_may_come_byte_by_byte(local_replicas: Server) -> None:
    """A replica answers a request whose head and body arrive byte by byte."""
    with connect(local_replicas) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in echo("slow"):
            connection.sendall(bytes([byte]))
        assert b'"text":"slow"' in read(connection, 1)


@pytest.mark.parametrize("asked", [echo("bye", Connection="close"), echo("bye").replace(b"HTTP/1.1", b"HTTP/1.0")])
def test_a_client_can_end_its_connection(local_replicas: Server, asked: bytes) -> None:
    """A replica sends `Connection: close` and closes the connection if the client asks for it or uses HTTP/1.0."""
    with connect(local_replicas) as connection:
        connection.sendall(asked)
        answer = rest(connection)
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"}")


def test_head_has_no_body(local_url: str) -> None:
    """The reply to HEAD has no body, but has the Content-Length of the reply to GET."""
    got = httpx.get(f"{local_url}/healthz")
    head = httpx.head(f"{local_url}/healthz")
    assert head.headers["Content-Length"] == got.headers["Content-Length"]
    assert head.content == b""


def test_a_connection_stays_usable_after_an_unread_body(start_server: StartServer) -> None:
    """After a refusal by the head alone, a connection stays usable, even if the body exceeds the read buffer."""
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="x" * 32)
    body = b" " * 100_000
    for first in (1000, 66_000, 90_000, 100_000):
        with connect(server) as connection:
            for _ in range(3):
                connection.sendall(declared(len(body)) + body[:first])
                assert reply(connection).startswith(b"HTTP/1.1 401 ")
                connection.sendall(body[first:])


def test_100_continue(local_replicas: Server) -> None:
    """A replica answers `Expect: 100-continue` with 100, or with 413 if the declared body is too large."""
    with connect(local_replicas) as connection:
        head, _, body = echo("asked", Expect="100-continue").partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert b'"text":"asked"' in read(connection, 1)
    with connect(local_replicas) as connection:
        connection.sendall(declared(999_999_999, Expect="100-continue"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("said", [b"", b"POST /mcp HT", echo("x")])
def test_an_idle_connection_is_closed(start_server: StartServer, said: bytes) -> None:
    """A replica closes a connection that is silent, has an incomplete head, or is idle after a reply."""
    server = start_server(KEEP_ALIVE_SECONDS="1")
    with connect(server) as connection:
        begun = time.monotonic()
        connection.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            rest(connection)
        assert time.monotonic() - begun > 0.5


def test_a_busy_connection_is_not_closed(start_server: StartServer) -> None:
    """A replica does not close a connection during a call that takes longer than KEEP_ALIVE_SECONDS."""
    server = start_server(KEEP_ALIVE_SECONDS="1", MCP_COMPONENTS="tests.packs.hostile", CALL_TIMEOUT_SECONDS="3")
    assert "did not finish within 3 s" in text(call(server.url, "never_ends_by_default"))
    until(lambda: "did not finish" in server.output, "the log reports the time limit of the call")


_SMUGGLED = (
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: gzip\r\n\r\nabc"
)


async def _slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.05)
    await PlainTextResponse(scope["path"])(scope, receive, send)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_pipeline_may_take_longer_than_the_receive_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receive timeout does not count the time in which the server does not read."""
    monkeypatch.setenv("RECEIVE_TIMEOUT_SECONDS", "1")

    connections = Connections(_slow)
    await connections.open()
    pipeline = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(120))
    await asyncio.to_thread(connections.clients[0].sendall, pipeline)
    answer = await connections.heard(0, until=b"\r\n\r\n/119")
    await connections.close()
    assert re.findall(rb"\r\n\r\n(/\d+)", answer) == [b"/%d" % i for i in range(120)]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("size", [300, 3000])
async def test_a_request_before_a_shutdown_is_answered(size: int) -> None:
    """A server answers a request that has arrived before its shutdown, whether it has parsed the request or not."""

    connections = Connections(app)
    protocol = await connections.open()
    protocol.data_received(b"GET /last HTTP/1.1\r\nHost: a\r\nX: " + b"x" * size + b"\r\n\r\n")
    protocol.shutdown()
    answer = await connections.heard(0, until=b"/last")
    await connections.close()
    assert answer.endswith(b"\r\n\r\n/last")
    assert b"connection: close" in answer.lower()


@pytest.mark.slow
def test_an_upgrade_whose_body_has_no_known_end(start_server: StartServer) -> None:
    """An upgrade whose body has no known end is refused without a traceback, after the reply to an earlier request."""
    server = start_server()
    for before in (b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(10)
            connection.sendall(before + _SMUGGLED)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 " if before else b"HTTP/1.1 400 ")
    until(lambda: "Invalid HTTP request" in server.output, "the log contains 'Invalid HTTP request'")
    assert "Traceback" not in server.output


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/version", 200),
        ("GET", "/readyz", 200),
        ("GET", "/", 200),
        ("GET", "/mcp", 405),
        ("POST", "/mcp", 415),
        ("POST", "/version", 405),
        ("GET", "/nothing", 404),
    ],
)
def test_every_response_names_its_replica(local_url: str, method: str, path: str, status: int) -> None:
    """Every response names its replica in `X-Served-By`, errors included."""
    reply = httpx.request(method, local_url + path)
    assert reply.status_code == status
    assert reply.headers["X-Served-By"].rpartition("-")[2] in {"1", "2", "3"}


@pytest.mark.parametrize(
    "said", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
def test_the_answer_to_invalid_http_names_its_replica(local_replicas: Server, said: bytes) -> None:
    """The answer to invalid HTTP or a TLS handshake names its replica, although no request reaches the app."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 60) as connection:
        connection.sendall(said)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nx-served-by: ")
    assert answer.endswith(b"\r\n\r\nInvalid HTTP request received.\n")


def test_the_header_names_the_replica_that_ran_the_tool(local_url: str) -> None:
    """`X-Served-By` names the replica that ran the tool."""
    reply = legacy(local_url, "tools/call", {"name": "server_info", "arguments": {}})
    assert reply.json()["result"]["structuredContent"]["replica"] == reply.headers["X-Served-By"]
