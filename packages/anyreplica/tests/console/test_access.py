"""Tests of keys in the console: nothing is shown before one is entered, and it stays in memory."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from conftest import Server, StartServer
from tests.console.conftest import KEY, LIMITED_KEY, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

LIMITED = {"sales_of_the_year", "sales_of_the_day"}
"""The tools that the limited key may use."""
JOBS = {"submit_job", "job_status", "job_result", "cancel_job", "export_data", "generate_report"}
ALL = LIMITED | JOBS | {"add", "echo", "server_info"}
"""The tools that the other key may use. `read_report` needs a scope."""


def test_nothing_is_shown_before_a_key_is_entered(guarded: Server, open_console: OpenConsole) -> None:
    """The page names no tool before it has a valid key. It keeps the key in memory only."""
    console = open_console(guarded.url)
    page = console.page
    addresses = list[str]()
    page.on("request", lambda each: addresses.append(each.url))
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
    assert all(KEY not in each for each in addresses)
    assert KEY not in page.content()
    page.reload()
    expect(page.get_by_label("Key or token")).to_be_visible()


def test_a_caller_sees_what_its_key_may_use(guarded: Server, open_console: OpenConsole) -> None:
    """The lists have what the server lists for this key, no more, also after another key."""
    console = open_console(guarded.url)
    page = console.page
    for key, tools in ((LIMITED_KEY, LIMITED), (KEY, ALL), (LIMITED_KEY, LIMITED)):
        page.get_by_label("Key or token").fill(key)
        page.get_by_role("button", name="Use it").click()
        panel = page.get_by_role("tabpanel", name="Tools", exact=True)
        expect(panel.get_by_text(f"{len(tools)} of {len(tools)} tools")).to_be_visible()
        assert set(panel.locator("details.entry > summary > code").all_inner_texts()) == tools
        assert page.get_by_role("tab", name="Jobs").count() == (1 if JOBS & tools else 0)
        offered = console.tab("Swarm").get_by_label("What to send").locator("option").all_inner_texts()
        assert {each.removeprefix("Call ") for each in offered} - {"List the tools"} <= tools
        console.tab("Resources")
        assert page.locator('details.entry[data-entry="report://year"]').count() == 0  # it needs a scope
        page.reload()


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
        reply = httpx.get(f"{tried.url}/replicas", headers={"Origin": origin})
        assert reply.status_code == 403
        assert "replicas" not in reply.json()
        assert not [each for each in reply.headers if each.startswith("access-control-")]
    reply = httpx.get(f"{tried.url}/replicas", headers={"Host": "evil.example"})  # DNS rebinding
    assert reply.status_code == 421
    assert "replicas" not in reply.json()
    own = httpx.get(f"{tried.url}/replicas", headers={"Origin": tried.url})
    assert own.status_code == 200


def test_a_prefix_of_a_proxy_is_kept(tmp_path: Path, open_console: OpenConsole) -> None:
    """Below a path that a proxy keeps (`PUBLIC_URL` with a path), the page calls the endpoint below this path."""
    port_settings = {"PUBLIC_URL": "http://127.0.0.1:1/api"}
    with Server(tmp_path / "log", **port_settings) as server:
        entry = open_console(f"{server.url}/api").open("add")
        entry.fill("a", "2")
        entry.fill("b", "3")
        assert "5" in entry.call()
