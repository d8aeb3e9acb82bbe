"""Bearer authentication with one token."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import Server, StartServer
from tests.auth.refused import text_of_refusal
from tests.calls import HEADERS, get, legacy, request

TOKEN = "s3cret-token"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that requires a token, which it reads from a secret file."""
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "auth_token").write_text(f"{TOKEN}\n")
    settings = {"AUTH_ENABLED": "true", "SECRETS_DIR": str(secrets), "MCP_COMPONENTS": "server,tests.packs.scoped"}
    with Server(tmp_path_factory.mktemp("secured") / "log", **settings) as server:
        yield server


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"])
def test_the_token_is_accepted(secured: Server, authorization: str) -> None:
    """A request with the token is accepted; the case of the scheme does not matter (RFC 9110, 11.1)."""
    assert legacy(secured.url, "tools/list", Authorization=authorization).status_code == 200


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}"]
)
def test_any_other_authorization_gets_401(secured: Server, authorization: str) -> None:
    """Any other authorization gets 401 with a challenge, and the reply does not contain the token."""
    reply = legacy(secured.url, "tools/list", Authorization=authorization)
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    error = reply.json()["error"]
    assert error["message"] == "The bearer token is not valid."
    assert error["data"] == {"error": "invalid_token"}
    assert reply.headers["X-Served-By"]
    assert TOKEN not in reply.text


@pytest.mark.anyio
async def test_the_official_client_shows_why_it_is_refused(secured: Server) -> None:
    """The official Python client shows the text of a 401, and a request to another route gets plain JSON.

    The challenge of a request without a token has no `error` (RFC 6750, 3).
    """
    assert legacy(secured.url, "tools/list").headers["WWW-Authenticate"] == 'Bearer realm="template-mcp"'
    refusal = await text_of_refusal(secured.url)
    assert refusal == "The request has no token; send the header Authorization: Bearer <token>."
    assert get(f"{secured.url}/jobs/1").json()["error"] == "unauthorized"


def test_the_token_has_no_scopes(secured: Server) -> None:
    """The holder of AUTH_TOKEN does not see a tool with `require_scopes`, and can't call it."""
    known: dict[str, Any] = {"Authorization": f"Bearer {TOKEN}"}
    names = {tool["name"] for tool in legacy(secured.url, "tools/list", **known).json()["result"]["tools"]}
    assert "echo" in names
    assert "read_report" not in names
    reply = legacy(secured.url, "tools/call", {"name": "read_report", "arguments": {}}, **known).json()
    assert reply["result"]["isError"]
    assert reply["result"]["content"][0]["text"] == "Unknown tool: 'read_report'"


def test_two_tokens_are_refused(secured: Server) -> None:
    """A request with two tokens is refused, because a proxy and the server might read different ones."""
    headers = [*HEADERS.items(), ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert httpx.post(f"{secured.url}/mcp", json=request("tools/list"), headers=headers).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/health", "/readyz", "/version", "/"])
def test_open_paths(secured: Server, path: str) -> None:
    """Probes and the home page work without a token."""
    assert httpx.get(secured.url + path).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *[(path, 401) for path in ("/mcp", "/mcp/", "/mcp%2f", "/metrics", "/health/deep", "/jobs", "/jobs/1")],
        *[(path, 404) for path in ("/nothing", "//mcp", "/healthz/../nothing", "/version/", "/MCP", "/jobs/")],
    ],
)
def test_no_other_path_is_open(secured: Server, path: str, status: int) -> None:
    """No other path is open without a token, in any spelling."""
    with httpx.Client() as client:
        url = httpx.URL(secured.url).copy_with(raw_path=path.encode())
        assert client.post(url, json=request("tools/list"), headers=HEADERS).status_code == status


def test_a_token_in_the_query_is_not_accepted(secured: Server) -> None:
    """A token in the query is not accepted, because queries appear in logs."""
    url = f"{secured.url}/mcp?access_token={TOKEN}"
    assert httpx.post(url, json=request("tools/list"), headers=HEADERS).status_code == 401
    assert TOKEN not in secured.output


def test_the_home_page_hides_the_components(secured: Server) -> None:
    """The home page explains how to connect with a token, and hides the components."""
    page = httpx.get(secured.url).text.partition("<script")[0]  # the script is the same for every server
    assert "Bearer &lt;token&gt;" in page
    assert "You need a bearer token." in page
    for hidden in ("echo", "summarize", "template://about", TOKEN):
        assert hidden not in page


def test_a_token_alone_does_not_enable_authentication(start_server: StartServer) -> None:
    """AUTH_TOKEN alone does not enable authentication, and a wrong Authorization header is ignored."""
    server = start_server(AUTH_TOKEN=TOKEN)
    assert legacy(server.url, "tools/list", Authorization="Bearer wrong").status_code == 200
