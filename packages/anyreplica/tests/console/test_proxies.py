"""Tests of replies that do not come from the server, but from a proxy in front of it: the page says so."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from conftest import Server
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

HTML = "<html><title>502 Bad Gateway</title>" + "y" * 5000
JSON = "application/json"
STREAM = "text/event-stream"
REPLIES = {
    "a page": (502, "text/html", HTML, "<html><title>502 Bad Gateway</title>yyyy"),
    "a page that says it is JSON": (502, JSON, HTML, "<html><title>502 Bad Gateway</title>yyyy"),
    "a page with status 200": (200, "text/html", HTML, "<html><title>502 Bad Gateway</title>yyyy"),
    "nothing": (504, "text/plain", "", "It is empty."),
    "nothing that says it is JSON": (504, JSON, "", "It is empty."),
    "JSON of a proxy": (500, JSON, '{"message": "Internal server error"}', "Internal server error"),
    "JSON that is no object": (200, JSON, "[1, 2]", "[1, 2]"),
    "an event that is no JSON": (200, STREAM, "data: <html>\n\n", "<html>"),
}


def _sending(status: int, kind: str, body: str) -> Callable[[Route], None]:
    """Return a handler that answers each request like a proxy."""
    return lambda route: route.fulfill(status=status, content_type=kind, body=body)


@pytest.mark.parametrize(("status", "kind", "body", "begin"), REPLIES.values(), ids=REPLIES)
def test_the_error_of_a_call_shows_the_reply(
    tried: Server, open_console: OpenConsole, status: int, kind: str, body: str, begin: str
) -> None:
    """The error has the status, says that a proxy may have sent the reply, and shows its first 200 characters."""
    console = open_console(tried.url)
    entry = console.open("echo")
    entry.fill("message", "hello")
    console.page.route("**/mcp", _sending(status, kind, body))
    shown = entry.call()
    assert f"The reply with the status {status} did not come from the MCP server, but maybe from a proxy" in shown
    assert begin in shown
    assert len(shown) < 400
    console.page.unroute("**/mcp")
    entry.press("Call")
    expect(entry.element.locator(".result pre").first).to_contain_text("hello")


@pytest.mark.parametrize("version", ["2026-07-28 (stateless)", "2025-11-25 (handshake)"])
@pytest.mark.parametrize("method", ["server/discover|initialize", "tools/list"])
def test_the_error_of_the_connection_shows_the_reply(
    tried: Server, open_console: OpenConsole, version: str, method: str
) -> None:
    """The same error appears if the first request fails, or a list."""

    def answer(route: Route) -> None:
        if re.fullmatch(method, (route.request.post_data_json or {})["method"]):
            _sending(502, "text/html", HTML)(route)
        else:
            route.continue_()

    console = open_console(tried.url)
    page = console.page
    page.route("**/mcp", answer)
    page.get_by_label("Protocol version").select_option(label=version)
    page.evaluate("document.querySelector('select').dispatchEvent(new Event('change'))")  # also if it is chosen already
    error = page.locator(".result.failed")
    expect(error).to_contain_text("The reply with the status 502 did not come from the MCP server")
    expect(error).to_contain_text("<html><title>502 Bad Gateway</title>")
    page.unroute("**/mcp")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator('details.entry[data-entry="echo"]')).to_be_visible()


def test_the_errors_of_other_routes_show_the_reply(tried: Server, open_console: OpenConsole) -> None:
    """The lists of the replicas and of the jobs show the error, and come back when the proxy is fine again."""
    console = open_console(tried.url)
    page = console.page
    page.route(re.compile("/(replicas|jobs)"), _sending(502, "text/html", HTML))
    for tab in ("Swarm", "Jobs"):
        console.tab(tab)
        panel = page.get_by_role("tabpanel", name=tab)
        text = "The reply with the status 502 did not come from the MCP server"
        expect(panel.get_by_text(text)).to_be_visible()
    page.unroute(re.compile("/(replicas|jobs)"))
    console.tab("Swarm")
    expect(page.get_by_text(re.compile(r"replicas? (is|are) ready"))).to_be_visible()


def test_a_refusal_of_a_replica_is_no_reply_of_a_proxy(tried: Server, open_console: OpenConsole) -> None:
    """An error that a replica sends in its own form is shown as it is."""
    console = open_console(tried.url)
    entry = console.open("echo")
    entry.fill("message", "hello")
    body = '{"error": "forbidden", "message": "This key may not do this."}'
    console.page.route("**/mcp", _sending(403, JSON, body))
    shown = entry.call()
    assert "This key may not do this." in shown
    assert "proxy" not in shown
