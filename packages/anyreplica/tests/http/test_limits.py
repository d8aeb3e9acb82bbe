"""Tests of the limits on connections, request heads and request bodies."""

import contextlib
import re
import resource
import signal
import socket
import sys
import threading
import time

import httpx
import pytest

from conftest import Server, StartServer, run, until
from tests.calls import HEADERS, request
from tests.damage.wire import declared, echo, handshake, reply
from tests.http.test_protocol import connect, read, rest

CLOSE = b"\r\nconnection: close\r\n"


def replies_until_closed(server: Server) -> int:
    """Return the number of calls that a connection answers, or 0 if it is still open after 999 calls."""
    with connect(server) as connection:
        for number in range(1, 1000):
            connection.sendall(echo("again", 1, number))
            if CLOSE in read(connection, 1):
                assert rest(connection) == b""
                return number
    return 0


def test_the_limit_on_requests_per_connection_varies(start_server: StartServer) -> None:
    """The limit on requests per connection varies by 25 % between connections, and clients see no failure."""
    server = start_server(MAX_REQUESTS_PER_CONNECTION="20")
    counts = [replies_until_closed(server) for _ in range(30)]
    assert all(15 <= count <= 25 for count in counts)
    assert len(set(counts)) > 3
    with httpx.Client(base_url=server.url) as client:
        call = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
        assert all(client.post("/mcp", json=call, headers=HEADERS).status_code == 200 for _ in range(100))


def test_a_connection_ends_after_its_maximum_age(start_server: StartServer) -> None:
    """A connection ends with its first response after MAX_CONNECTION_AGE_SECONDS."""
    server = start_server(MAX_CONNECTION_AGE_SECONDS="1", MAX_REQUESTS_PER_CONNECTION="0")
    with connect(server) as connection:
        began, number, answer = time.monotonic(), 0, b""
        while CLOSE not in answer:
            number += 1
            connection.sendall(echo("again", 1, number))
            answer = read(connection, 1)
        assert time.monotonic() - began > 0.5
        assert number > 1


def test_connections_without_limits(start_server: StartServer) -> None:
    """With both limits at 0 a connection stays open without a limit on requests or age."""
    server = start_server(MAX_CONNECTION_AGE_SECONDS="0", MAX_REQUESTS_PER_CONNECTION="0")
    assert replies_until_closed(server) == 0


def test_the_limit_on_requests_holds_for_a_pipeline(start_server: StartServer) -> None:
    """In a pipeline, the response that reaches the limit has `Connection: close`, and no data follows this response."""
    server = start_server(MAX_REQUESTS_PER_CONNECTION="20")
    with connect(server) as connection:
        connection.sendall(b"".join(echo(f"m{number}", 1, number) for number in range(50)))
        answer = rest(connection)
    answered = re.findall(rb'"id":(\d+),', answer)
    assert answered == [b"%d" % number for number in range(len(answered))]
    assert 15 <= len(answered) <= 25
    assert answer.count(CLOSE) == 1
    assert answer.index(CLOSE) > answer.index(b'"id":%d,' % (len(answered) - 2))


def test_a_drain_ends_connections_with_their_next_response(start_server: StartServer) -> None:
    """A draining replica answers the next request on each old or new connection and then closes the connection."""
    server = start_server(DRAIN_SECONDS="600")
    with connect(server) as connection, connect(server) as idle:
        connection.sendall(echo("before"))
        assert CLOSE not in read(connection, 1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503, "/readyz answers with 503")
        with connect(server) as new:
            for each, text in ((connection, "during"), (new, "new")):
                each.sendall(echo(text, 1, 2))
                answer = rest(each)
                assert CLOSE in answer
                assert b'"text":"%b"' % text.encode() in answer
        server.process.send_signal(signal.SIGTERM)  # the second one ends the drain
        assert rest(idle) == b""
    assert server.process.wait(60) == 0


def test_a_replica_raises_its_limit_on_open_files(start_server: StartServer) -> None:
    """A replica raises its limit on open files to MAX_CONNECTIONS; otherwise connections would wait forever."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
    try:
        server = start_server(MAX_CONNECTIONS="300", ready=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    server.wait_ready()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(server)) for _ in range(200)]
        for connection in connections:
            connection.sendall(echo("here"))
            assert b"here" in read(connection, 1)


@pytest.mark.slow
@pytest.mark.servers
def test_a_replica_warns_if_it_may_open_too_few_files() -> None:
    """A replica starts and logs a warning if the hard limit on open files is too low for MAX_CONNECTIONS."""
    imports = "from anyreplica.http.uvicorn.connections import allow_files; import logging"
    program = f"{imports}; logging.basicConfig(); allow_files(1000)"
    done = run("sh", "-c", f"ulimit -n 500; exec {sys.executable} -c '{program}'")
    told = "MAX_CONNECTIONS=1000 needs 1256 open files, but the limit of this process is 500; raise it (ulimit -n)"
    assert told in done.stderr


def test_a_connection_beyond_the_limit_replaces_an_idle_one(start_server: StartServer) -> None:
    """A connection beyond the limit replaces the one with the longest idle time, or gets 503 if all are busy."""
    server = start_server(MAX_CONNECTIONS="3", MCP_COMPONENTS="server,tests.packs.waiting")
    with contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(connect(server)) for _ in range(3))
        for connection in (second, first, third):  # The connection `second` is idle for the longest time.
            connection.sendall(echo("here"))
            read(connection, 1)
            later = time.monotonic() + 0.02
            until(lambda: time.monotonic() > later, "0.02 s have passed")  # noqa: B023
        fourth = stack.enter_context(connect(server))
        assert rest(second) == b""
        for connection in (first, third, fourth):
            connection.sendall(echo("still", 1, 5))
            read(connection, 1)
        for number, connection in enumerate((first, third, fourth)):
            wait = {"name": "wait", "arguments": {"key": f"busy-{number}"}}
            connection.sendall(handshake("tools/call", wait))

        def refused() -> bool:
            with connect(server) as fifth, contextlib.suppress(ConnectionResetError):
                fifth.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    answer = rest(fifth)
                    told = b"\r\nretry-after: 1\r\n" in answer and CLOSE in answer
                    return told and answer.startswith(b"HTTP/1.1 503 ")
            return False

        until(refused, "the replica refuses a fifth connection")


@pytest.mark.parametrize("said", [b"P", b"POST /mcp HTTP/1.1\r\nHost: local"])
def test_a_head_that_takes_too_long(start_server: StartServer, said: bytes) -> None:
    """A replica answers 408 if a head does not arrive in time, on a new connection and on a used connection."""
    server = start_server(RECEIVE_TIMEOUT_SECONDS="1")
    with connect(server) as new, connect(server) as used:
        used.sendall(echo("first"))
        read(used, 1)
        for connection in (new, used):
            connection.sendall(said)
        for answer in map(rest, (new, used)):
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert CLOSE in answer


@pytest.mark.parametrize("expected", [b"", b"Expect: 100-continue\r\n"])
@pytest.mark.parametrize("sent", [0, 20])
def test_a_body_that_takes_too_long(start_server: StartServer, sent: int, expected: bytes) -> None:
    """A body that does not arrive in time, not even its first byte, gets 408 with an error about the timeout only."""
    server = start_server(RECEIVE_TIMEOUT_SECONDS="1")
    head, body = echo("slow").split(b"\r\n\r\n")
    with connect(server) as connection:
        connection.sendall(head + b"\r\n" + expected + b"\r\n" + body[:sent])
        answer = rest(connection).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"Request body too slow: it did not arrive within 1 s" in answer
    assert CLOSE in answer


@pytest.mark.parametrize("step", [1, 100, 100_000])
def test_a_head_that_is_too_long(start_server: StartServer, step: int) -> None:
    """A head, not a body, beyond MAX_HEAD_BYTES is refused before it is complete, however the client splits it."""
    server = start_server(MAX_HEAD_BYTES="2048")
    with connect(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(echo("x" * 5000))
        assert b'"text":"xxx' in read(connection, 1)
        connection.sendall(echo("fine", X_Fill="x" * 1700))
        assert b'"text":"fine"' in read(connection, 1)
        head = b"POST /mcp HTTP/1.1\r\nX-Fill: " + b"x" * 10_000
        with contextlib.suppress(BrokenPipeError):
            for start in range(0, len(head), step):
                connection.sendall(head[start : start + step])
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert CLOSE in answer


@pytest.mark.parametrize("pipelined", [0, 1])
def test_a_whole_head_that_is_too_long(start_server: StartServer, pipelined: int) -> None:
    """A head beyond MAX_HEAD_BYTES in one piece is refused, and the requests before it are answered."""
    server = start_server(MAX_HEAD_BYTES="2048")
    with connect(server) as connection:
        connection.sendall(echo("fine") * pipelined + echo("long", 1, 2, X_Fill="x" * 2048))
        answer = rest(connection)
    assert b"long" not in answer
    assert answer.count(b'"text":"fine"') == pipelined
    assert pipelined or answer.startswith(b"HTTP/1.1 431 ")
    assert CLOSE in answer


def test_a_refusal_is_readable_while_the_body_is_still_sent(start_server: StartServer) -> None:
    """A client can read a refusal while it still sends its body. An immediate close would reset the connection."""
    server = start_server(MAX_BODY_BYTES="100000")
    with connect(server) as connection:
        connection.sendall(declared(20_000_000))

        def send() -> None:
            with contextlib.suppress(OSError):
                for _ in range(200):
                    connection.sendall(b" " * 100_000)

        sender = threading.Thread(target=send)
        sender.start()
        answer = reply(connection)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"the limit is 100000 bytes" in answer
        connection.close()
        sender.join()
    with connect(server) as connection:
        connection.sendall(echo("well"))
        assert b'"text":"well"' in read(connection, 1)
