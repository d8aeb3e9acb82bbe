"""Tests of keys in the console: nothing is shown before one is entered, and it stays in memory."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from conftest import Server, StartServer
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

KEY = "the-key-of-the-console-in-this-test"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that wants a key."""
    with Server(tmp_path_factory.mktemp("guarded") / "log", AUTH_ENABLED="true", AUTH_TOKEN=KEY) as server:
        yield server


def test_nothing_is_shown_before_a_key_is_entered(guarded: Server, open_console: OpenConsole) -> None:
    """The page names no tool before it has a valid key. It keeps the key in memory only."""
    console = open_console(guarded.url)
    page = console.page
    expect(page.get_by_label("Key or token")).to_be_visible()
    assert "echo" not in page.locator("body").inner_text()  # without the text of the script
    assert page.locator("details.entry").count() == 0
    page.get_by_label("Key or token").fill("not-a-key")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("alert").filter(has_text="token")).to_be_visible()
    page.get_by_label("Key or token").fill(KEY)
    page.get_by_role("button", name="Use it").click()
    entry = console.open("echo")
    entry.fill("message", "with a key")
    assert "with a key" in entry.call()
    stored = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
    assert KEY not in stored
    assert KEY not in page.content()
    page.reload()
    expect(page.get_by_label("Key or token")).to_be_visible()


def test_the_replicas_are_for_callers_only(guarded: Server) -> None:
    """`GET /replicas` names the replicas, so it needs a key. The page has no rights of its own."""
    assert httpx.get(f"{guarded.url}/replicas").status_code == 401
    reply = httpx.get(f"{guarded.url}/replicas", headers={"Authorization": f"Bearer {KEY}"})
    (only,) = reply.json()["replicas"]
    assert only["name"] == reply.headers["X-Served-By"]
    page = httpx.get(guarded.url)
    assert page.status_code == 200
    assert "echo" not in page.text.split("<script")[0].replace("echo '", "")


def test_the_console_can_be_off(start_server: StartServer) -> None:
    """With `CONSOLE=off`, `/` is a page without scripts, and there is no list of replicas."""
    server = start_server(CONSOLE="off")
    page = httpx.get(server.url)
    assert "<script" not in page.text
    assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
    assert httpx.get(f"{server.url}/replicas").status_code == 404


def test_another_site_cannot_use_the_page(tried: Server) -> None:
    """No page can show the console in a frame, and a request from another origin is refused (CSRF, clickjacking)."""
    headers = httpx.get(tried.url).headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for origin in ("https://evil.example", "null"):
        assert httpx.post(f"{tried.url}/mcp", json=message, headers={"Origin": origin}).status_code == 403


def test_a_prefix_of_a_proxy_is_kept(tmp_path: Path, open_console: OpenConsole) -> None:
    """Below a path that a proxy keeps (`PUBLIC_URL` with a path), the page calls the endpoint below this path."""
    port_settings = {"PUBLIC_URL": "http://127.0.0.1:1/api"}
    with Server(tmp_path / "log", **port_settings) as server:
        entry = open_console(f"{server.url}/api").open("add")
        entry.fill("a", "2")
        entry.fill("b", "3")
        assert "5" in entry.call()
