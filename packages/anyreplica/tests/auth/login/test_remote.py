"""Replicas that only verify tokens need neither Redis nor state."""

from pathlib import Path

import httpx
import pytest

from tests.auth.issuer import NAME, Issuer
from tests.auth.login.fleets import COMMAND, COMPONENTS
from tests.calls import legacy, text
from tests.replicas import running

pytestmark = pytest.mark.servers

URL = "https://mcp.example.com"


def test_each_replica_verifies_tokens(tmp_path: Path) -> None:
    """Each replica serves the metadata and accepts the tokens of the issuer, with their scopes."""
    settings = {"AUTH": "remote", "PUBLIC_URL": URL, "MCP_COMPONENTS": COMPONENTS}
    with (
        Issuer().serving() as issuer,
        running(tmp_path, 2, command=COMMAND, JWKS=issuer.url, **settings) as fleet,
    ):
        for url in fleet.urls:
            check(url, issuer)


def check(url: str, issuer: Issuer) -> None:
    """Check one replica."""
    refused = legacy(url, "tools/list")
    resource = f"{URL}/.well-known/oauth-protected-resource/mcp"
    assert refused.status_code == 401
    assert f'resource_metadata="{resource}"' in refused.headers["www-authenticate"]
    described = httpx.get(resource.replace(URL, url)).json()
    assert described["resource"] == f"{URL}/mcp"
    assert described["authorization_servers"] == [NAME]
    called = {"name": "read_report", "arguments": {}}
    reply = legacy(url, "tools/call", called, Authorization=f"Bearer {issuer.token()}")
    assert text(reply.json()["result"]) == "for ada"
    weak = legacy(url, "tools/call", called, Authorization=f"Bearer {issuer.token(scope='mcp')}")
    assert text(weak.json()["result"]) == "Unknown tool: 'read_report'"
    for wrong in (issuer.token(exp=1), issuer.token(iss="https://evil.example.com"), issuer.token(aud="another")):
        assert legacy(url, "tools/list", {}, Authorization=f"Bearer {wrong}").status_code == 401
