"""Tests of the header `X-Served-By`."""

import socket

import httpx
import pytest

from conftest import Server
from tests.calls import legacy


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
