"""Bearer auth: one token."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import Server, StartServer
from tests.calls import HEADERS, legacy, request

TOKEN = "s3cret-token"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that asks for a token, which it has from a secret file."""
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "auth_token").write_text(f"{TOKEN}\n")
    server = Server(tmp_path_factory.mktemp("secured") / "log", AUTH_ENABLED="true", SECRETS_DIR=str(secrets))
    server.wait_ready()
    yield server
    server.stop()


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"])
def test_the_token_opens(secured: Server, authorization: str) -> None:
    """The scheme's case doesn't matter (RFC 9110, 11.1)."""
    assert legacy(secured.url, "tools/list", Authorization=authorization).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}"],
)
def test_anything_else_is_401(secured: Server, authorization: str) -> None:
    """With a challenge and a body that says what to do, and nothing of the token."""
    reply = legacy(secured.url, "tools/list", Authorization=authorization)
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"] == 'Bearer realm="template-mcp", error="invalid_token"'
    assert reply.json() == {"error": "invalid_token", "message": "The bearer token is not valid."}
    assert reply.headers["X-Served-By"]
    assert TOKEN not in reply.text


def test_the_token_has_no_scopes(start_server: StartServer) -> None:
    """The holder of AUTH_TOKEN does not see a tool with `require_scopes`, and can't call it."""
    known: dict[str, Any] = {"Authorization": f"Bearer {TOKEN}"}
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN=TOKEN, MCP_COMPONENTS="tests.sample,tests.packs.scoped")
    names = {tool["name"] for tool in legacy(server.url, "tools/list", **known).json()["result"]["tools"]}
    assert "echo" in names
    assert "read_report" not in names
    reply = legacy(server.url, "tools/call", {"name": "read_report", "arguments": {}}, **known).json()
    assert reply["result"]["isError"]
    assert reply["result"]["content"][0]["text"] == "Unknown tool: 'read_report'"


def test_no_token_is_told_how(secured: Server) -> None:
    """Without an `error` in the challenge (RFC 6750, 3)."""
    reply = legacy(secured.url, "tools/list")
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"] == 'Bearer realm="template-mcp"'
    assert reply.json()["message"] == "The request has no token; send the header Authorization: Bearer <token>."


def test_two_tokens_are_refused(secured: Server) -> None:
    """Which of them counts would depend on who reads the request."""
    headers = [*HEADERS.items(), ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert httpx.post(f"{secured.url}/mcp", json=request("tools/list"), headers=headers).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/health", "/readyz", "/version", "/"])
def test_open_paths(secured: Server, path: str) -> None:
    """Probes and the page work without a token."""
    assert httpx.get(secured.url + path).status_code == 200


@pytest.mark.parametrize(
    "path", ["/mcp", "/mcp/", "/nothing", "//mcp", "/healthz/../mcp", "/version/", "/MCP", "/mcp%2f"]
)
def test_no_other_path_is_open(secured: Server, path: str) -> None:
    """By whichever spelling."""
    with httpx.Client() as client:
        url = httpx.URL(secured.url).copy_with(raw_path=path.encode())
        assert client.post(url, json=request("tools/list"), headers=HEADERS).status_code == 401


def test_a_token_in_the_query_opens_nothing(secured: Server) -> None:
    """Queries end up in logs."""
    url = f"{secured.url}/mcp?access_token={TOKEN}"
    assert httpx.post(url, json=request("tools/list"), headers=HEADERS).status_code == 401
    assert TOKEN not in secured.output


def test_the_page_keeps_the_catalogue_to_itself(secured: Server) -> None:
    """It says how to connect, and with a token."""
    page = httpx.get(secured.url).text
    assert "Bearer &lt;token&gt;" in page
    assert "You need a bearer token." in page
    for hidden in ("echo", "summarize", "template://about", TOKEN):
        assert hidden not in page


def test_without_auth_no_token_is_asked_for(start_server: StartServer) -> None:
    """A token alone doesn't switch it on; a wrong header does no harm."""
    server = start_server(AUTH_TOKEN=TOKEN)
    assert legacy(server.url, "tools/list", Authorization="Bearer wrong").status_code == 200
