"""Example test of the error that clients get when a dependency of a tool is down."""

import socket
import sys
from pathlib import Path

import pytest
from anyreplica.testing import CallFailed, replica

from server.server import create_app

TOOL = '''
from fastmcp.tools import tool

from anyreplica import check, downstream

URL = "http://127.0.0.1:{port}/price"


@tool
async def price() -> float:
    """Return the price from the price service."""
    return (await downstream.get(URL)).json()["price"]


@check
async def price_service() -> None:
    """Check that the price service answers."""
    await downstream.get(URL)
'''


def test_a_service_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the tool names the host that is down, and /health/deep reports the failing check."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        (tmp_path / "pricing.py").write_text(TOOL.format(port=unused.getsockname()[1]))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with replica(create_app, MCP_COMPONENTS="server,pricing") as client:
        with pytest.raises(CallFailed, match=r"127\.0\.0\.1"):
            client.call("price")
        deep = client.http.get("/health/deep")
        assert deep.status_code == 503
        assert deep.json()["checks"]["price_service"]["status"] == "failing"
