"""Pages of other origins."""

import sys
from collections.abc import Iterator

import httpx
import pytest

from conftest import Server, run
from tests.calls import HEADERS, legacy, request

APP = "https://app.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that wants a token, and lets pages of one origin in."""
    settings = {"AUTH_ENABLED": "true", "AUTH_TOKEN": "t" * 40, "CORS_ORIGINS": f"{APP},http://localhost:6274"}
    server = Server(tmp_path_factory.mktemp("cors") / "log", **settings)
    server.wait_ready()
    yield server
    server.stop()


def preflight(server: Server, origin: str) -> httpx.Response:
    """A browser's question ahead of a call."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
    with httpx.Client(verify=False) as client:
        return client.options(f"{server.url}/mcp", headers={"Origin": origin, **asked})


def test_a_page_of_the_origin_may_call_and_read(server: Server) -> None:
    """Asked first, without a token, as browsers do; refusals can be read as well."""
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


@pytest.mark.parametrize("origin", ["https://evil.example.com", f"{APP}.evil.com", "null", "http://app.example.com"])
def test_others_may_not(server: Server, origin: str) -> None:
    """Neither ask nor call."""
    assert preflight(server, origin).status_code == 400
    reply = legacy(server.url, "tools/list", Origin=origin, Authorization=f"Bearer {'t' * 40}")
    assert reply.status_code == 403
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_callers_that_are_no_browser_see_nothing_of_it(server: Server) -> None:
    """Without an Origin."""
    reply = legacy(server.url, "tools/list", Authorization=f"Bearer {'t' * 40}")
    assert reply.status_code == 200
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_it_is_off_by_default(local_url: str) -> None:
    """A preflight gets no leave."""
    with httpx.Client(verify=False) as client:
        asked = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
        reply = client.options(f"{local_url}/mcp", headers=asked)
        assert "Access-Control-Allow-Origin" not in reply.headers
        reply = client.post(f"{local_url}/mcp", json=request("ping"), headers={**HEADERS, "Origin": local_url})
        assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize("origins", ["*", "app.example.com", "https://app.example.com/", "https://*.example.com"])
def test_what_is_no_origin_stops_the_start(origins: str) -> None:
    """Above all the asterisk."""
    done = run(sys.executable, "-m", "tests.sample", "check", CORS_ORIGINS=origins)
    assert done.returncode == 3
    assert done.stderr.startswith(f"CORS_ORIGINS={origins}: ")
