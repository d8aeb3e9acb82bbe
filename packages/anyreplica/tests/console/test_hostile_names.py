"""Tests of a hostile server: markup in names, addresses, instructions and errors is shown as text and runs nothing.

The replies are invented, because FastMCP refuses some of these names.
"""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from conftest import Server
from tests.console.conftest import Console, OpenConsole
from tests.packs.tried import MARKUP

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

QUOTED = f"\"'>{MARKUP}"
"""Markup that would also end an attribute."""
SCHEMA = {"type": "object", "properties": {QUOTED: {"type": "string", "title": QUOTED, "format": QUOTED}}}
LISTS: dict[str, dict[str, Any]] = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": QUOTED, "version": QUOTED},
        "instructions": f"Instructions {QUOTED}",
    },
    "tools/list": {
        "tools": [
            {"name": QUOTED, "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
            {"name": f"job {QUOTED}", "inputSchema": SCHEMA, "_meta": {"anyreplica/job": True}},
        ]
    },
    "resources/list": {"resources": [{"uri": f"x://{QUOTED}", "name": QUOTED, "mimeType": QUOTED}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": f"x://{{{QUOTED}}}", "name": QUOTED}]},
    "prompts/list": {"prompts": [{"name": QUOTED, "arguments": [{"name": QUOTED, "description": QUOTED}]}]},
}
REPLICA = {"name": QUOTED, "version": QUOTED, "status": QUOTED, "started": 1, "uptime_seconds": 1, "in_flight": QUOTED}
JOB = {"id": QUOTED, "job": QUOTED, "status": QUOTED, "progress": 50, "message": QUOTED}


@pytest.fixture
def hostile_console(tried: Server, open_console: OpenConsole) -> Console:
    """The console of a server that has markup in every name. Each call fails with an error that has markup."""

    def answer(route: Route) -> None:
        message = route.request.post_data_json or {}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        if message["method"] in LISTS:
            body["result"] = LISTS[message["method"]]
        else:
            body["error"] = {"code": -32000, "message": f"Error {QUOTED}", "data": {QUOTED: QUOTED}}
        route.fulfill(json=body, headers={"X-Served-By": MARKUP})

    console = open_console(tried.url)
    console.page.route("**/mcp", answer)
    console.page.route("**/replicas", lambda route: route.fulfill(json={"replicas": [{**REPLICA, "seconds_ago": 0}]}))
    console.page.route("**/jobs*", lambda route: route.fulfill(json={"jobs": [JOB]}))
    console.page.reload()
    return console


def _open(panel: Locator) -> Locator:
    """Open all entries of a panel, and return the first one."""
    expect(panel.locator("details.entry").first).to_be_visible()
    for entry in panel.locator("details.entry").all():
        entry.locator("summary").first.click()
    return panel.locator("details.entry").first


def _is_text(place: Locator, times: int) -> None:
    """Check that markup is shown so many times at least, and that none of it has become an element."""
    expect(place).to_contain_text(re.compile(f"({re.escape(QUOTED)}.*){{{times}}}", re.DOTALL))
    assert place.locator("img, script, [onerror]").count() == 0


def _runs_nothing(page: Page, title: str) -> None:
    assert page.title() == title
    assert page.locator("main img, main script, main [onerror]").count() == 0


def test_markup_of_names_is_text(hostile_console: Console) -> None:
    """Names of tools, arguments, prompts, resources, variables and types are text: in lists, forms, code and JSON."""
    page = hostile_console.page
    title = page.title()
    tools = page.get_by_role("tabpanel", name="Tools", exact=True)
    expect(tools.get_by_text(f"Instructions {QUOTED}")).to_be_visible()
    entry = _open(tools)
    expect(entry.locator("summary").first).to_contain_text(QUOTED)
    expect(entry.locator("label").first).to_contain_text(f"{QUOTED} {QUOTED}")
    page.get_by_label("Search the tools").fill(f"job {QUOTED}")
    expect(tools.locator("details.entry")).to_have_count(1)
    page.get_by_label("Search the tools").fill("")
    for tab in ("Resources", "Prompts"):
        panel = hostile_console.tab(tab)
        entry = _open(panel)
        _is_text(panel, 3)
        entry.get_by_role("button", name=re.compile("^(Read|Get the prompt)$")).click()
        expect(entry.locator(".result.failed")).to_contain_text(f"Error {QUOTED} (code -32000)")
    _runs_nothing(page, title)


def test_markup_of_errors_is_text(hostile_console: Console) -> None:
    """The text and the data of an error, and the name of the replica, are text: also over the wire and in code."""
    page = hostile_console.page
    title = page.title()
    entry = _open(page.get_by_role("tabpanel", name="Tools", exact=True))
    entry.locator("[data-name]").first.fill(QUOTED)
    entry.get_by_role("button", name="Call", exact=True).click()
    expect(entry.locator(".status")).to_contain_text(f"Served by replica {MARKUP}")
    failed = entry.locator(".result.failed")
    expect(failed).to_contain_text(f"Error {QUOTED} (code -32000)")
    assert json.loads(failed.get_by_label("Error").inner_text()) == {QUOTED: QUOTED}
    entry.get_by_text("Over the wire").click()
    expect(entry.get_by_label("Replies")).to_contain_text(f"X-Served-By: {MARKUP}")
    entry.get_by_text("Copy as curl, Python or TypeScript").click()
    expect(entry.get_by_label("The call with curl")).to_contain_text("<img src=x")
    _is_text(entry, 1)
    _runs_nothing(page, title)


def test_markup_of_jobs_and_replicas_is_text(hostile_console: Console) -> None:
    """What other routes say is text: names, states and messages of jobs, and names, versions and states of replicas."""
    page = hostile_console.page
    title = page.title()
    jobs = hostile_console.tab("Jobs")
    _open(jobs)
    _is_text(jobs.get_by_role("row").nth(1), 4)
    jobs.get_by_role("button", name=f"Cancel {QUOTED}").click()
    swarm = hostile_console.tab("Swarm")
    _is_text(swarm.get_by_role("row").nth(1), 3)
    page.get_by_label("What to send").select_option(label=f"Call {QUOTED}")
    swarm.get_by_role("button", name="Send 300 calls").click()
    expect(swarm.get_by_text(f"300 failed (Error {QUOTED})")).to_be_visible(timeout=60_000)
    _runs_nothing(page, title)
