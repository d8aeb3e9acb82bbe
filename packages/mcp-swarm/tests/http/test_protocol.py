"""HTTP/1.1 itself: what comes out of the socket, and when it is closed."""

import contextlib
import os
import re
import signal
import socket
import threading
import time

import httpx
import pytest

from conftest import Server, StartServer, until
from tests.attacks.wire import reply
from tests.calls import HEADERS, request

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":"%s"}}}'


def post(number: int, message: bytes, *headers: bytes, version: bytes = b"1.1") -> bytes:
    """A tool call as it goes over the wire."""
    body = CALL % (number, message)
    head = [
        b"POST /mcp HTTP/" + version,
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def read(connection: socket.socket, count: int) -> bytes:
    """What comes until `count` replies are there."""
    answer = b""
    while answer.count(b'"isError":false') < count:
        part = connection.recv(65536)
        assert part, answer
        answer += part
    return answer


def test_pipelined_requests_are_answered_in_order(local_replicas: Server) -> None:
    """Sent without waiting (RFC 9112, section 9.3.2)."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        connection.sendall(b"".join(post(number, b"m%d" % number) for number in range(20)))
        answer = read(connection, 20)
    places = [answer.index(b'"id":%d,' % number) for number in range(20)]
    assert places == sorted(places)


def test_a_long_pipeline_is_answered(local_replicas: Server) -> None:
    """As much as a buffer holds, in order, the last of it with the end of the connection."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        requests = [post(number, b"m%d" % number) for number in range(700)]
        sending = threading.Thread(
            target=connection.sendall, args=(b"".join([*requests, post(700, b"last", b"Connection: close")]),)
        )
        sending.start()
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
        sending.join()
    assert re.findall(rb'"id":(\d+),', answer) == [b"%d" % number for number in range(701)]


def test_replies_of_all_kinds_keep_their_order(local_replicas: Server) -> None:
    """Those that are written together with others', and those that aren't."""
    get = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n"
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        asked = [
            post(1, b"first"),
            get % (b"HEAD", b"/nowhere", b"keep-alive"),
            get % (b"GET", b"/nowhere", b"keep-alive"),
            post(2, b"second"),
            get % (b"GET", b"/version", b"close"),
        ]
        connection.sendall(b"".join(asked))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"404", b"404", b"200", b"200"]
    assert answer.index(b'"text":"first"') < answer.index(b"404") < answer.index(b'"text":"second"')
    assert answer.endswith(b"}")
    assert b'"paths"' in answer


def test_what_comes_at_once_is_answered_apart(start_server: StartServer) -> None:
    """More connections than are answered together; what isn't HTTP among them costs only its own."""
    server = start_server(MAX_IN_FLIGHT="200")  # before Python 3.12 all begin before the first is answered
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10)) for _ in range(200)
        ]
        os.kill(server.process.pid, signal.SIGSTOP)  # so that all of it is there when the process looks
        for number, connection in enumerate(connections):
            connection.sendall(post(number, b"m%d" % number) if number % 10 else b"no HTTP\r\n\r\n")
        os.kill(server.process.pid, signal.SIGCONT)
        for number, connection in enumerate(connections):
            if number % 10:
                assert b'"text":"m%d"' % number in read(connection, 1)
            else:
                assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_request_may_come_byte_by_byte(local_replicas: Server) -> None:
    """Its head and its body."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(1, b"slow"):
            connection.sendall(bytes([byte]))
        assert b'"text":"slow"' in read(connection, 1)


@pytest.mark.parametrize(("headers", "version"), [([b"Connection: close"], b"1.1"), ([], b"1.0")])
def test_a_connection_that_is_to_be_closed_is(local_replicas: Server, headers: list[bytes], version: bytes) -> None:
    """By the header, and by HTTP/1.0's default; and the reply says so."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        connection.sendall(post(1, b"bye", *headers, version=version))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"}")


def test_head_has_no_body(local_url: str) -> None:
    """But the length that GET would have."""
    got = httpx.get(f"{local_url}/healthz")
    head = httpx.head(f"{local_url}/healthz")
    assert head.headers["Content-Length"] == got.headers["Content-Length"]
    assert head.content == b""


def test_a_connection_goes_on_after_a_body_that_nobody_read(start_server: StartServer) -> None:
    """More than the server reads ahead, of a request that is refused by its head."""
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="x" * 32)
    body = b" " * 100_000
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    for first in (1000, 66_000, 90_000, 100_000):
        with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
            for _ in range(3):
                connection.sendall(head % len(body) + body[:first])
                assert reply(connection).startswith(b"HTTP/1.1 401 ")
                connection.sendall(body[first:])


def test_100_continue(local_replicas: Server) -> None:
    """A caller who asks before sending a body; one too large is refused without it."""
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        head, _, body = post(1, b"asked", b"Expect: 100-continue").partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert b'"text":"asked"' in read(connection, 1)
    with socket.create_connection(("127.0.0.1", local_replicas.port), 10) as connection:
        large = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(large + b"Content-Length: 999999999\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_large_reply_arrives_whole(local_url: str) -> None:
    """Larger than what a socket takes at once."""
    message = "x" * 3_000_000
    params = {"name": "echo", "arguments": {"message": message}}
    reply = httpx.post(f"{local_url}/mcp", json=request("tools/call", params), headers=HEADERS, timeout=30)
    assert reply.json()["result"]["content"][0]["text"] == message


@pytest.mark.parametrize("said", [b"", b"POST /mcp HT", post(1, b"x")])
def test_an_idle_connection_is_closed(start_server: StartServer, said: bytes) -> None:
    """One that says nothing, one that never finishes its head, and one that has been answered."""
    server = start_server(KEEP_ALIVE_SECONDS="1")
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        begun = time.monotonic()
        connection.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):
                pass
        assert 0.5 < time.monotonic() - begun < 8


def test_a_busy_connection_is_not(start_server: StartServer) -> None:
    """A call takes longer than idle connections are kept."""
    server = start_server(KEEP_ALIVE_SECONDS="1", MCP_COMPONENTS="tests.packs.hostile", CALL_TIMEOUT_SECONDS="3")
    params = {"name": "never_ends_by_default", "arguments": {}}
    with httpx.Client(base_url=server.url, timeout=30) as client:
        reply = client.post("/mcp", json=request("tools/call", params), headers=HEADERS)
        assert "did not finish within 3 s" in reply.text
        until(lambda: "did not finish" in server.output, "the log's line")


def test_the_head_of_a_stream_does_not_wait_for_its_first_event(start_server: StartServer) -> None:
    """A session's stream of its own says nothing for as long as nothing happens."""
    server = start_server(STATELESS_HTTP="false", JSON_RESPONSE="false")
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    both = {**HEADERS, "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=server.url, timeout=5) as client:
        session = client.post("/mcp", json=request("initialize", params), headers=both).headers["Mcp-Session-Id"]
        opened = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        with client.stream("GET", "/mcp", headers=opened) as reply:
            assert reply.status_code == 200
            assert reply.headers["Content-Type"].startswith("text/event-stream")
