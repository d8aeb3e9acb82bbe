"""Tests of calls from web pages of other origins (CORS)."""

from collections.abc import Iterator

import httpx
import pytest

from conftest import Server
from tests.calls import legacy
from tests.starts import start

APP = "https://app.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that requires a token and allows the pages of two origins."""
    settings = {"AUTH_ENABLED": "true", "AUTH_TOKEN": "t" * 40, "CORS_ORIGINS": f"{APP},http://localhost:6274"}
    with Server(tmp_path_factory.mktemp("cors") / "log", **settings) as server:
        yield server


def preflight(server: Server, origin: str) -> httpx.Response:
    """Send the request that a browser sends before a call."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
    return httpx.options(f"{server.url}/mcp", headers={"Origin": origin, **asked}, verify=False)


def test_a_page_of_an_allowed_origin_may_call_and_read(server: Server) -> None:
    """A page of an allowed origin passes the preflight without a token and can read every reply, also refusals.

    A request without an Origin gets a reply without CORS headers.
    """
    first = preflight(server, APP)
    assert first.status_code == 200
    assert first.headers["Access-Control-Allow-Origin"] == APP
    assert first.headers["Access-Control-Allow-Headers"] == "authorization,mcp-method"
    assert "Access-Control-Allow-Credentials" not in first.headers
    for token, status in (("t" * 40, 200), ("wrong", 401)):
        reply = legacy(server.url, "tools/list", Origin=APP, Authorization=f"Bearer {token}")
        assert reply.status_code == status
        assert reply.headers["Access-Control-Allow-Origin"] == APP
        assert "X-Request-ID" in reply.headers["Access-Control-Expose-Headers"]
        assert reply.headers["Vary"] == "Origin"
    reply = legacy(server.url, "tools/list", Authorization=f"Bearer {'t' * 40}")
    assert reply.status_code == 200
    assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize("origin", ["https://evil.example.com", f"{APP}.evil.com", "null", "http://app.example.com"])
def test_a_page_of_another_origin_is_refused(server: Server, origin: str) -> None:
    """A page of another origin fails the preflight and gets 403 for a call."""
    assert preflight(server, origin).status_code == 400
    reply = legacy(server.url, "tools/list", Origin=origin, Authorization=f"Bearer {'t' * 40}")
    assert reply.status_code == 403
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_cors_is_disabled_by_default(local_url: str) -> None:
    """A replica without CORS_ORIGINS sends no CORS headers."""
    asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    first = httpx.options(f"{local_url}/mcp", headers=asked, verify=False)
    for reply in (first, legacy(local_url, "ping", Origin=local_url)):
        assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize("origins", ["*", "app.example.com", "https://app.example.com/", "https://*.example.com"])
def test_an_invalid_origin_stops_the_start(origins: str) -> None:
    """A value of CORS_ORIGINS that is not an origin, for example an asterisk, stops the start."""
    done = start("check", CORS_ORIGINS=origins)
    assert done.returncode == 3
    assert done.stderr.startswith(f"CORS_ORIGINS={origins}: ")
