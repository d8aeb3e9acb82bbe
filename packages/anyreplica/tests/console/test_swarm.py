"""Tests of the tab *Swarm*: which replicas are known, and which of them answers."""

import os
import re
import signal

import httpx
import pytest
from playwright.sync_api import expect

from conftest import Server, StartServer, until
from tests.calls import modern
from tests.console.conftest import OpenConsole
from tests.processes import children, command_of

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


def _known(url: str) -> dict[str, dict[str, object]]:
    found = httpx.get(f"{url}/replicas").json()["replicas"]
    return {each["name"]: each for each in found}


def test_calls_are_drawn_by_replica(tried: Server, open_console: OpenConsole) -> None:
    """The page sends 300 calls, and shows how many of them each replica has answered, and how fast."""
    panel = open_console(tried.url).send_calls()
    assert panel.locator("svg circle").count() == 300
    assert re.search(r"[\d.]+ s since the first call", panel.locator("svg[role=img]").text_content() or "")
    rows = panel.get_by_role("region", name="Calls by replica").locator("tbody tr")
    counts = [int(rows.nth(index).locator("td").first.inner_text()) for index in range(rows.count())]
    assert sum(counts) == 300
    assert re.search(r"median [\d.]+ ms", panel.inner_text())


def test_only_read_only_tools_are_called_many_times(tried: Server, open_console: OpenConsole) -> None:
    """The list has no tool that may change something, so that nobody writes 300 times by mistake."""
    console = open_console(tried.url)
    console.tab("Swarm")
    offered = console.page.get_by_label("What to send").locator("option").all_inner_texts()
    tools = modern(tried.url, "tools/list").json()["result"]["tools"]
    safe = {f"Call {each['name']}" for each in tools if (each.get("annotations") or {}).get("readOnlyHint") is True}
    assert {"Call echo", "Call server_info"} <= set(offered)
    assert set(offered) - {"List the tools"} <= safe
    assert "Call write_down" not in offered


def test_a_server_without_read_only_tools_gets_no_calls(start_server: StartServer, open_console: OpenConsole) -> None:
    """The page says so, and only lists the tools."""
    console = open_console(start_server(MCP_COMPONENTS="tests.packs.lists").url)
    console.tab("Swarm")
    expect(console.page.get_by_text("so no tool can be called here")).to_be_visible()
    assert console.page.get_by_label("What to send").locator("option").all_inner_texts() == ["List the tools"]


def test_all_replicas_are_known_and_a_killed_one_is_replaced(tried: Server, open_console: OpenConsole) -> None:
    """Every replica is in the list of each. After a kill, the page shows the lost one and the new one."""
    until(lambda: len(_known(tried.url)) == 3, "three replicas are known")
    console = open_console(tried.url)
    console.tab("Swarm")
    panel = console.page.get_by_role("tabpanel", name="Swarm")
    expect(panel.get_by_text("3 replicas are ready.")).to_be_visible(timeout=60_000)
    expect(panel.locator("tr.replica.new")).to_have_count(0, timeout=60_000)
    os.kill(_oldest_replica(tried), signal.SIGKILL)
    expect(panel.locator("tr.replica.new")).to_have_count(1, timeout=60_000)
    expect(panel.locator("tr.replica.silent, tr.replica.gone").first).to_be_visible(timeout=60_000)
    expect(panel.get_by_text("3 replicas are ready.")).to_be_visible(timeout=60_000)


def _oldest_replica(server: Server) -> int:
    """Return the process id of the replica that started first. The worker of the jobs starts after all replicas."""
    forking = [pid for pid in children(server.process.pid) if "forkserver" in command_of(pid)]
    return next(replica for pid in forking for replica in children(pid))
