"""What this package adds to a server of the SDK: limits, keys, tokens, logs and metrics."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from anyreplica import Settings, create_app
from anyreplica.features.keys.key import hash_of
from anyreplica.testing import CallFailed, Client, replica
from tests.calls import BOTH, HEADERS
from tests.calls import request as rpc
from tests.sdk_server.served import low, shop

_KEY = "a-key-with-more-than-32-characters"
_URL = "https://shop.example.com"


@contextmanager
def served(server: Any, **values: Any) -> Iterator[Client]:
    """Run a replica of a server in this process."""
    with replica(lambda: create_app(server, Settings(mcp_name="shop", **values))) as client:
        yield client


@pytest.mark.parametrize(
    ("tool", "said"), [("hang", "tool 'hang' did not finish within 0.1 s"), ("leave", "Error calling tool 'leave'")]
)
def test_a_call_ends_and_the_server_goes_on(tool: str, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """A call ends after CALL_TIMEOUT_SECONDS. `sys.exit()` fails this call only."""
    with served(shop.make(), call_timeout_seconds=0.1) as client:
        with pytest.raises(CallFailed) as failed:
            client.call(tool)
        assert str(failed.value) == said
        assert client.call("add", a=1) == {"result": 3}
    assert caplog.records


@pytest.mark.parametrize("prices", [["x"] * 50_000, json.dumps(["x"] * 50_000)])
def test_many_wrong_arguments_have_a_short_error(prices: Any) -> None:
    """The SDK would report each wrong value of a list, and also of a text that stands for a list."""
    with served(shop.make()) as client:
        with pytest.raises(CallFailed) as failed:
            client.call("total", prices=prices)
        assert str(failed.value).startswith("Error executing tool total: prices.0: Input should be a valid integer")
        assert len(str(failed.value)) < 1000
        assert client.call("total", prices=[1] * 50_000) == {"result": 50_000}
        assert client.call("total", prices=json.dumps([1] * 50_000)) == {"result": 50_000}


def test_each_function_has_threads_of_its_own() -> None:
    """A plain `def` runs in the threads of this package, also if the tool is added while the server runs."""
    server = shop.make()
    with served(server, tool_threads=2) as client:
        assert client.call("thread") == {"result": "anyreplica worker thread"}
        client.call("add_tool")
        assert client.call("later", text="x") == {"result": "x"}
        (found,) = [tool for tool in server._tool_manager.list_tools() if tool.name == "later"]
        assert asyncio.iscoroutinefunction(found.fn)


@pytest.mark.parametrize("make", [shop.make, low.make])
def test_log_version_and_metrics_name_the_tools(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The path of all requests is `sdk`. Unknown tools have no label of their own.

    The tools of a low-level server are known as soon as a client has listed them, page by page.
    """
    with served(make(), console="off") as client:
        if make is shop.make:
            names = client.tools()
        else:
            names = ["ask", "crash", "echo", "fail", "wrong"]
            assert client.http.get("/version").json()["paths"] == {}
            for cursor in (None, "2", "4"):
                client.http.post("/mcp", json=rpc("tools/list", {"cursor": cursor} if cursor else {}), headers=HEADERS)
        for name in (names[0], "missing"):
            client.http.post("/mcp", json=_message(name), headers={"Accept": "application/json"})
        page = client.http.get("/metrics").text
        paths = client.http.get("/version").json()["paths"]
        status_page = client.http.get("/").text
    assert paths.keys() == set(names)
    kind = "MCPServer" if make is shop.make else "Server"
    assert {*paths.values()} == {f"sdk: the server is of the MCP SDK ({kind})"}
    if make is shop.make:
        assert all(name in status_page for name in names)
    else:
        assert "The server itself lists its components to clients." in status_page
    assert 'mcp_requests_total{method="tools/call",outcome=' in page
    assert f'path="sdk",protocol="handshake",tool="{names[0]}"' in page
    assert 'tool="unknown"' in page
    assert 'tool="missing"' not in page
    assert f"tools/call {names[0]}" in capsys.readouterr().err


def _message(tool: str) -> dict[str, Any]:
    return rpc("tools/call", {"name": tool, "arguments": {"a": 1}})


def test_a_key_may_have_some_tools(tmp_path: Path) -> None:
    """Other tools do not exist for the holder of the key. The audit log has the call."""
    keys, audited = tmp_path / "keys", tmp_path / "audit"
    keys.write_text(json.dumps({"id": "reader", "hash": hash_of(_KEY), "tools": ["a*"]}))
    with served(shop.make(), auth_enabled=True, api_keys_file=keys, audit_log=str(audited)) as client:
        with pytest.raises(CallFailed, match="no token"):
            client.tools()
        headers = {"Accept": BOTH, "Authorization": f"Bearer {_KEY}"}
        asked = [rpc("tools/list"), _message("find"), _message("add")]
        listed, refused, added = (client.http.post("/mcp", json=each, headers=headers).text for each in asked)
    assert '"add"' in listed
    assert '"find"' not in listed
    assert "Unknown tool: find" in refused
    assert '"result":3' in added
    assert '"add"' in audited.read_text()


class Verifier:
    """The author's verifier of tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        known = {"ada": f"{_URL}/mcp", "elsewhere": "https://other.example.com"}
        if token not in known:
            return None
        return AccessToken(token=token, client_id=token, scopes=["read"], resource=known[token], subject="ada")


def test_the_token_verifier_of_the_server_is_used(caplog: pytest.LogCaptureFixture) -> None:
    """Without a valid token for this server, the reply is 401 with the URL of the metadata. A tool sees the token."""
    auth = AuthSettings(
        issuer_url=AnyHttpUrl("https://login.example.com"),
        resource_server_url=AnyHttpUrl(f"{_URL}/mcp"),
        required_scopes=["read"],
        validate_token_resource=True,
    )
    server = shop.make(auth=auth, token_verifier=Verifier())

    @server.tool()
    def whoami() -> str:
        token = get_access_token()
        return f"{token and token.client_id}"

    with served(server) as client:
        for token in ("", "unknown", "elsewhere"):
            reply = client.http.post("/mcp", json=_message("add"), headers={"Authorization": f"Bearer {token}"})
            assert reply.status_code == 401
        metadata = f"{_URL}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in reply.headers["WWW-Authenticate"]
        found = client.http.get(metadata.removeprefix(_URL)).json()
        assert found["authorization_servers"] == ["https://login.example.com/"]
        assert client.with_token("ada").call("whoami") == {"result": "ada"}


def test_custom_routes_and_rate_limits() -> None:
    """A custom route has its path. A caller beyond the rate is refused."""
    with served(shop.make(), rate_limit="2/h") as client:
        assert client.http.get("/hello").text == "hello"
        statuses = {client.http.post("/mcp", json=_message("add"), headers=HEADERS).status_code for _ in range(100)}
    assert statuses == {200, 429}
