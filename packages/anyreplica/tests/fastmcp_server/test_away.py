"""Tests of a proxy that raises the errors of the server behind it, while that server is away."""

import pytest
from fastmcp import FastMCP
from fastmcp.server.providers.proxy import FastMCPProxy, ProxyClient

from anyreplica import App, create_app
from anyreplica.mcp import endpoint
from anyreplica.testing import CallFailed, replica
from conftest import until


def test_a_proxy_starts_without_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls fail while the server is away, as with `fastmcp run`. When it is back, its tools get paths and work."""
    monkeypatch.setattr(endpoint, "_RETRY_SECONDS", 0.01)
    behind = FastMCP("behind")
    behind.tool(lambda: "hello", name="hello")
    reached: list[FastMCP | str] = ["http://127.0.0.1:9/mcp"]

    def proxy() -> App:
        server = FastMCPProxy(client_factory=lambda: ProxyClient(reached[-1]), provider_error_strategy="raise")
        server.tool(lambda: "own", name="own")
        return create_app(server)

    with replica(proxy, MCP_COMPONENTS="") as client:
        assert client.http.get("/version").json()["paths"] == {}
        for tool in ("own", "hello"):
            with pytest.raises(CallFailed, match="Client failed to connect"):
                client.call(tool)
        reached.append(behind)
        until(lambda: "hello" in client.http.get("/version").json()["paths"], "the tools have paths")
        assert [client.call(tool) for tool in ("own", "hello")] == ["own", "hello"]
