"""Tests of requests that the server cannot parse at once, because it answers earlier requests first."""

import asyncio
import re
import socket

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from conftest import StartServer, until
from tests.http.connections import Connections, app

pytestmark = pytest.mark.slow

_SMUGGLED = (
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: gzip\r\n\r\nabc"
)


async def _slow(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.05)
    await PlainTextResponse(scope["path"])(scope, receive, send)


def test_a_pipeline_may_take_longer_than_the_receive_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receive timeout does not count the time in which the server does not read."""
    monkeypatch.setenv("RECEIVE_TIMEOUT_SECONDS", "1")

    async def ask() -> list[bytes]:
        connections = Connections(_slow)
        await connections.open()
        await asyncio.to_thread(
            connections.clients[0].sendall, b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(120))
        )
        answer = await connections.heard(0, until=b"\r\n\r\n/119")
        await connections.close()
        return re.findall(rb"\r\n\r\n(/\d+)", answer)

    assert asyncio.run(ask()) == [b"/%d" % i for i in range(120)]


@pytest.mark.parametrize("size", [300, 3000])
def test_a_request_before_a_shutdown_is_answered(size: int) -> None:
    """A server answers a request that has arrived before its shutdown, whether it has parsed the request or not."""

    async def ask() -> bytes:
        connections = Connections(app)
        protocol = await connections.open()
        protocol.data_received(b"GET /last HTTP/1.1\r\nHost: a\r\nX: " + b"x" * size + b"\r\n\r\n")
        protocol.shutdown()
        answer = await connections.heard(0, until=b"/last")
        await connections.close()
        return answer

    answer = asyncio.run(ask())
    assert answer.endswith(b"\r\n\r\n/last")
    assert b"connection: close" in answer.lower()


def test_an_upgrade_whose_body_has_no_known_end(start_server: StartServer) -> None:
    """An upgrade whose body has no known end is refused without a traceback, after the reply to an earlier request."""
    server = start_server()
    for before in (b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(10)
            connection.sendall(before + _SMUGGLED)
            answer = b""
            while part := connection.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200 " if before else b"HTTP/1.1 400 ")
    until(lambda: "Invalid HTTP request" in server.output, "the log contains 'Invalid HTTP request'")
    assert "Traceback" not in server.output
