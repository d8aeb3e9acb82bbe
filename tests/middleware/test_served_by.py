"""`X-Served-By` is on every response."""

import httpx
import pytest

from tests.mcp import legacy


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
    """Errors included."""
    reply = httpx.request(method, local_url + path)
    assert reply.status_code == status
    assert reply.headers["X-Served-By"].rpartition("-")[2] in {"1", "2", "3"}


def test_it_is_the_replica_that_ran_the_tool(local_url: str) -> None:
    """The header and the tool agree."""
    reply = legacy(local_url, "tools/call", {"name": "server_info", "arguments": {}})
    assert reply.json()["result"]["structuredContent"]["replica"] == reply.headers["X-Served-By"]
