"""Replicas that only verify tokens need neither Redis nor state."""

from pathlib import Path

import httpx
import pytest

from conftest import Server
from tests.auth.issuer import NAME, Issuer
from tests.auth.login.fleets import COMMAND
from tests.calls import HEADERS, legacy, post, request
from tests.replicas import KEYS

pytestmark = pytest.mark.servers


URL = "https://mcp.example.com"


def test_each_replica_verifies_tokens(tmp_path: Path) -> None:
    """Each replica serves the metadata and accepts the tokens of the issuer, with their scopes."""
    settings = {"AUTH": "remote", "PUBLIC_URL": URL, "MCP_REPLICAS": "2", "REQUEST_STATE_KEYS": KEYS}
    settings["MCP_COMPONENTS"] = "tests.sample,tests.packs.scoped"
    with Issuer().serving() as issuer:
        servers = [
            Server(tmp_path / f"{number}.log", command=COMMAND, JWKS=issuer.url, **settings) for number in range(2)
        ]
        try:
            for server in servers:
                server.wait_ready()
                check(server.url, issuer)
        finally:
            for server in servers:
                server.stop()


def check(url: str, issuer: Issuer) -> None:
    """Check one replica."""
    refused = post(url, json=request("tools/list"), headers=HEADERS)
    resource = f"{URL}/.well-known/oauth-protected-resource/mcp"
    assert refused.status_code == 401
    assert f'resource_metadata="{resource}"' in refused.headers["www-authenticate"]
    described = httpx.get(resource.replace(URL, url)).json()
    assert described["resource"] == f"{URL}/mcp"
    assert described["authorization_servers"] == [f"{NAME}/"]
    called = {"name": "read_report", "arguments": {}}
    reply = legacy(url, "tools/call", called, Authorization=f"Bearer {issuer.token()}")
    assert reply.json()["result"]["content"][0]["text"] == "for ada"
    weak = legacy(url, "tools/call", called, Authorization=f"Bearer {issuer.token(scope='mcp')}")
    assert weak.json()["result"]["content"][0]["text"] == "Unknown tool: 'read_report'"
    for wrong in (issuer.token(exp=1), issuer.token(iss="https://evil.example.com"), issuer.token(aud="another")):
        assert legacy(url, "tools/list", {}, Authorization=f"Bearer {wrong}").status_code == 401
