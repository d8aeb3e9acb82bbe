"""Tests against request smuggling: a proxy and a replica could disagree about the end of a request."""

import socket
from contextlib import suppress

import pytest

from conftest import Server
from tests.calls import legacy
from tests.damage.fields import AMBIGUOUS
from tests.damage.wire import Headers, Request

INNER = (
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 46\r\n"
    b'Connection: close\r\n\r\n{"jsonrpc":"2.0","id":"smuggled","method":"x"}'
)
HEAD: Headers = ((b"Host", b"localhost"), (b"Content-Type", b"application/json"))
PING = b'{"jsonrpc":"2.0","id":"first","method":"ping"}'


def sent(server: Server, data: bytes) -> bytes:
    """Send these bytes on a new connection and return all data until the server closes it or 3 seconds pass."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=3) as connection:
        connection.sendall(data)
        said = b""
        with suppress(ConnectionResetError, TimeoutError):  # The server may wait for more of the body.
            while part := connection.recv(65536):
                said += part
        return said


@pytest.mark.parametrize("framing", AMBIGUOUS)
def test_no_second_request_is_read_out_of_the_first(local_replicas: Server, framing: Headers) -> None:
    """Ambiguous framing is refused, and its body is never read as a request (RFC 9112, sections 6.3 and 11.2)."""
    for body in (INNER, b"0\r\n\r\n" + INNER, b"5\r\nhello\r\n0\r\n\r\n" + INNER):
        said = sent(local_replicas, Request(body, (*HEAD, *framing)).wire)
        assert b'"id":"smuggled"' not in said
        assert said == b"" or said.startswith(b"HTTP/1.1 4"), said[:200]
        assert said.count(b"HTTP/1.1 ") <= 1
    assert legacy(local_replicas.url, "tools/list").status_code == 200


def test_a_valid_pipelined_request_is_read(local_replicas: Server) -> None:
    """A replica reads a valid pipelined request. This proves that the test above would notice a smuggled request."""
    said = sent(local_replicas, Request(PING + INNER, (*HEAD, (b"Content-Length", b"%d" % len(PING)))).wire)
    assert b'"id":"first"' in said
    assert b'"id":"smuggled"' in said
