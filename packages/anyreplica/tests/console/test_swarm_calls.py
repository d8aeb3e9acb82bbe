"""Tests of the many calls that the tab *Swarm* sends: how they are sent, drawn while they run, and counted."""

import re
from collections import Counter

import httpx
import pytest
from playwright.sync_api import Locator, Response, expect

from conftest import Server, until
from tests.console.conftest import Console, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

AT_ONCE = 6
"""The connections that a browser opens to one host (HTTP/1.1)."""
COUNTING = """
const send = window.fetch;
let waiting = 0;
Object.assign(window, { most: 0, sent: 0 });
window.fetch = async (url, options = {}) => {
  if (options.method !== "POST") return send(url, options);
  waiting += 1;
  window.sent += 1;
  window.most = Math.max(window.most, waiting);
  try {
    return await send(url, options);
  } finally {
    waiting -= 1;
  }
};
"""
"""A script that counts the requests to the MCP endpoint which wait for an answer."""


def _begin(console: Console, what: str, count: int) -> Locator:
    """Start to send calls, and return the panel."""
    panel = console.tab("Swarm")
    panel.get_by_label("What to send").select_option(label=what)
    panel.get_by_label("How often").fill(str(count))
    panel.get_by_role("button", name=f"Send {count} calls").click()
    return panel


def test_calls_are_drawn_while_they_run(tried: Server, open_console: OpenConsole) -> None:
    """The chart and the table grow with each answer. *Stop* ends it: calls that were stopped have not failed."""
    console = open_console(tried.url)
    panel = _begin(console, "Call pause", 3000)
    points = panel.locator("svg[role=img] circle")
    stop = panel.get_by_role("button", name="Stop")
    seen = list[int]()
    for _ in range(3):
        until(lambda: points.count() > max([0, *seen]), "the chart has more points than before")
        seen.append(points.count())
        expect(stop).to_be_visible()
    expect(panel.get_by_text("Sending 3000 calls …")).to_be_visible()
    rows = panel.get_by_role("region", name="Calls by replica").locator("tbody tr")
    expect(rows).not_to_have_count(0)
    stop.click()
    expect(panel.get_by_role("button", name="Send 3000 calls")).to_be_visible()
    # Local replicas share a port. The kernel gives each of the six connections to one of them, perhaps none to a third.
    summary = panel.get_by_text(re.compile(r"calls answered by \d replicas?, 0 failed"))
    expect(summary).to_contain_text(f"by {rows.count()} replica")
    assert seen[-1] <= points.count() < 3000


def test_the_page_sends_six_calls_at_once(tried: Server, open_console: OpenConsole) -> None:
    """It never waits for more answers than a browser has connections to a host, and does use all of these."""
    console = open_console(tried.url)
    console.page.add_init_script(COUNTING)
    console.page.reload()
    panel = _begin(console, "Call pause", 60)
    expect(panel.get_by_text("60 calls answered by")).to_be_visible(timeout=60_000)
    assert console.page.evaluate("window.most") == AT_ONCE
    assert console.page.evaluate("window.sent") >= 60


def test_the_numbers_are_those_of_the_replies(tried: Server, open_console: OpenConsole) -> None:
    """Each row is a known replica, with as many calls as replies have its name in the header `X-Served-By`."""
    console = open_console(tried.url)
    served = Counter[str]()

    def note(reply: Response) -> None:
        if reply.request.method == "POST" and "tools/call" in (reply.request.post_data or ""):
            served[reply.headers["x-served-by"]] += 1

    console.page.on("response", note)
    panel = _begin(console, "Call echo", 120)
    expect(panel.get_by_text("120 calls answered by")).to_be_visible(timeout=60_000)
    rows = panel.get_by_role("region", name="Calls by replica").locator("tbody tr").all()
    shown = {row.locator("th").inner_text(): int(row.locator("td").first.inner_text()) for row in rows}
    known = {each["name"] for each in httpx.get(f"{tried.url}/replicas").json()["replicas"]}
    assert shown.keys() <= known
    assert shown == served
    assert sum(shown.values()) == 120
