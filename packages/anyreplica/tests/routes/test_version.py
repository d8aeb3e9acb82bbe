"""Tests of `GET /version`."""

import re

import httpx
import pytest

from conftest import StartServer, until
from tests.calls import get

pytestmark = pytest.mark.smoke


def test_version(local_url: str) -> None:
    """`/version` shows the server's version, the protocol versions, the replica's status and each tool's path."""
    reply = httpx.get(f"{local_url}/version")
    found = reply.json()
    # The server in a clone may have more tools: those of somebody who tries it.
    assert {"add": "fast", "echo": "fast", "server_info": "fast"}.items() <= found.pop("paths").items()
    assert found == {
        "name": "template-mcp",
        "version": "0.2.0",
        "hostname": reply.headers["X-Served-By"],
        "status": "ready",
        "protocol_versions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
    }


def test_paths_are_shown_with_their_reason(start_server: StartServer) -> None:
    """The log and, for valid callers only, `/version` show the path of each tool with its reason."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.hostile", AUTH_ENABLED="true", AUTH_TOKEN="let-me-in")
    assert "paths" not in get(f"{server.url}/version").json()
    paths = get(f"{server.url}/version", headers={"Authorization": "Bearer let-me-in"}).json()["paths"]
    assert paths["echo"] == "fast"
    assert paths["depends_on_an_exit"] == "fast, with Context or dependencies"
    assert paths["made_by_hand"] == "fast"
    assert paths["generate_report"] == "fastmcp: not a plain function"
    line = re.compile(r"Path of .*generate_report.*: fastmcp: not a plain function")
    until(lambda: line.search(server.output) is not None, "the log contains the path of the tool and its reason")
