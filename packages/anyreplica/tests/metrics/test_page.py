"""Tests of the page `/metrics` and of its access control."""

import httpx

from conftest import StartServer
from tests.calls import get
from tests.metrics.page import Scrape


def test_the_formats_of_the_page(local_url: str) -> None:
    """The page has the OpenMetrics format if the client requests it, and the classic text format otherwise."""
    assert get(f"{local_url}/metrics").headers["Content-Type"].startswith("text/plain")
    asked = {"Accept": "application/openmetrics-text; version=1.0.0"}
    reply = get(f"{local_url}/metrics", headers=asked)
    assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")
    assert httpx.post(f"{local_url}/metrics").status_code == 405


def test_a_token_for_the_page(start_server: StartServer) -> None:
    """With METRICS_TOKEN only this token opens the page. A caller's key does not open it and is not needed."""
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="k" * 40, METRICS_TOKEN="m" * 20)
    for shown in ("", "Bearer wrong", "Basic " + "m" * 20, "Bearer " + "k" * 40):
        reply = get(f"{server.url}/metrics", headers={"Authorization": shown} if shown else {})
        assert reply.status_code == 401, shown
        assert reply.headers["WWW-Authenticate"] == 'Bearer realm="metrics"'
        assert "mcp_" not in reply.text
    assert Scrape(server.url, Authorization="Bearer " + "m" * 20).value("mcp_requests_in_flight_max") > 0


def test_without_a_metrics_token_the_page_needs_a_callers_key(start_server: StartServer) -> None:
    """Without METRICS_TOKEN the page requires a caller's key if authentication is enabled."""
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="k" * 40)
    assert get(f"{server.url}/metrics").status_code == 401
    assert Scrape(server.url, Authorization="Bearer " + "k" * 40).samples
