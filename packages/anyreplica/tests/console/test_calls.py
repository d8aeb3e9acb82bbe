"""Tests of calls from the console: who answered, messages, the end of a call, and calls that change something."""

import re
import time

import httpx
import pytest
from playwright.sync_api import expect

from conftest import Server, StartServer, until
from tests.console.conftest import VERSIONS, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_are_shown_while_the_tool_runs(tried: Server, open_console: OpenConsole, version: str) -> None:
    """Each progress and log message of a tool is a line, before the call ends and after it."""
    console = open_console(tried.url)
    console.speak(version)
    for number, tool in enumerate(("report_and_wait", "log_and_wait")):
        entry, key = console.open(tool), f"{number} of {version}"
        entry.fill("key", key)
        entry.press("Call")
        entry.press("Yes, call it")
        line = entry.element.locator(".log li").filter(has_text=f"waiting for {key}")
        expect(line).to_be_visible()
        expect(entry.element.get_by_role("button", name="Cancel")).to_be_visible()
        expect(entry.element.locator(".output")).to_be_empty()
        entry.press("Cancel")
        assert "You have cancelled the call." in entry.result()
        expect(line).to_be_visible()
        if tool == "report_and_wait":
            bar = line.get_by_role("progressbar", name="Progress")
            expect(bar).to_have_js_property("value", 1)
            expect(bar).to_have_js_property("max", 2)
        else:
            expect(line).to_contain_text("info")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_page_says_who_answered_and_how_fast(tried: Server, open_console: OpenConsole, version: str) -> None:
    """The name is the one of the reply's header. The time has that of the tool, and none that the user took."""
    console = open_console(tried.url)
    console.speak(version)
    entry = console.open("nap")
    entry.fill("seconds", "0.3")
    entry.press("Call")
    begin = time.monotonic()
    with console.page.expect_response(f"{tried.url}/mcp") as answered:
        entry.press("Yes, call it")
    assert "0.3" in entry.result()
    most = (time.monotonic() - begin) * 1000
    replica = answered.value.headers["x-served-by"]
    found = re.fullmatch(r"Served by replica (\S+) in ([\d.]+) ms", entry.element.locator(".status").inner_text())
    assert found is not None
    assert found[1] == replica
    assert 300 <= float(found[2]) <= most
    entry.element.get_by_text("Over the wire").click()
    expect(entry.element.get_by_label("Replies")).to_contain_text(f"X-Served-By: {replica}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_can_be_cancelled(tried: Server, open_console: OpenConsole, version: str) -> None:
    """The button ends the call at the server, too: the slot is free again and the page is ready for the next call."""
    console = open_console(tried.url)
    console.speak(version)
    entry = console.open("nap")
    entry.fill("seconds", "600")
    entry.press("Call")
    entry.press("Yes, call it")
    until(lambda: _in_flight(tried.url) == 1, "the call runs in a replica")
    entry.press("Cancel")
    assert "You have cancelled the call." in entry.result()
    until(lambda: _in_flight(tried.url) == 0, "no replica runs it any more", seconds=20)
    entry.fill("seconds", "0")
    entry.press("Call")
    expect(entry.element.locator(".result")).to_contain_text("0")


def test_a_change_of_the_version_cancels_what_runs(tried: Server, open_console: OpenConsole) -> None:
    """The call ends in its own session. No request of the new version, or of a later session, has the old session."""
    console = open_console(tried.url)
    sent = list[dict[str, str]]()
    console.page.on("request", lambda each: sent.append({**each.headers, "body": each.post_data or ""}))
    console.speak(VERSIONS[1])
    entry = console.open("nap")
    entry.fill("seconds", "600")
    entry.press("Call")
    entry.press("Yes, call it")
    until(lambda: _in_flight(tried.url) == 1, "the call runs in a replica")
    old = {each["mcp-session-id"] for each in sent if "mcp-session-id" in each}
    assert len(old) == 1
    at = len(sent)
    console.speak(VERSIONS[0])
    echo = console.open("echo")
    echo.fill("message", "in the new version")
    assert "in the new version" in echo.call()
    until(lambda: _in_flight(tried.url) == 0, "no replica runs the call any more", seconds=20)
    (cancelled,) = (each for each in sent[at:] if "notifications/cancelled" in each["body"])
    assert cancelled["mcp-session-id"] in old
    assert cancelled["mcp-protocol-version"] == "2025-11-25"
    later = [each for each in sent[at:] if each is not cancelled]
    assert not [each for each in later if "mcp-session-id" in each]
    console.speak(VERSIONS[1])
    again = console.open("echo")
    again.fill("message", "in a new session")
    assert "in a new session" in again.call()
    sessions = {each["mcp-session-id"] for each in sent[at:] if each is not cancelled and "mcp-session-id" in each}
    assert len(sessions) == 1
    assert sessions.isdisjoint(old)


def _in_flight(url: str) -> int:
    """Return the number of requests in flight in all replicas, a second ago."""
    replicas = httpx.get(f"{url}/replicas").json()["replicas"]
    return sum(int(each["in_flight"]) for each in replicas)


def test_a_tool_that_may_change_something_asks_once(tried: Server, open_console: OpenConsole) -> None:
    """Without `readOnlyHint`, the first call needs a confirmation. Read-only tools need none."""
    console = open_console(tried.url)
    for tool, badges in (("add", ["read-only", "idempotent"]), ("links", ["read-only", "open world"])):
        assert console.open(tool).element.locator("summary .badge").all_inner_texts() == badges
    entry = console.open("remove_all")
    expect(entry.element.get_by_text("destructive")).to_be_visible()
    entry.press("Call")
    entry.press("No")
    assert entry.element.locator(".result").count() == 0
    entry.press("Call")
    entry.press("Yes, call it")
    assert "Everything is removed." in entry.result()
    entry.press("Call")
    expect(entry.element.locator(".status")).to_contain_text("Served by")
    assert entry.element.get_by_role("button", name="Yes, call it").count() == 0


def test_the_page_need_not_ask(start_server: StartServer, open_console: OpenConsole) -> None:
    """With `CONSOLE=on`, tools that may change something are called at once."""
    entry = open_console(start_server(CONSOLE="on", MCP_COMPONENTS="tests.packs.tried").url).open("write_down")
    entry.fill("text", "without a question")
    entry.press("Call")
    assert "without a question" in entry.result()


@pytest.mark.parametrize("version", [VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.slow)])
def test_resources_prompts_and_completions(tried: Server, open_console: OpenConsole, version: str) -> None:
    """A resource is read, a template has fields for its variables, and a prompt shows its messages."""
    console = open_console(tried.url)
    console.speak(version)
    console.tab("Resources")
    assert "identical replicas" in console.open("template://about").call("Read")
    entry = console.open("template://greeting/{language}/{name}")
    entry.fill("language", "en")
    entry.fill("name", "Ada Lovelace")
    assert "Ada Lovelace" in entry.call("Read")
    entry = console.open("test://template/{id}/data")
    entry.fill("id", "red")
    offered = entry.element.locator("datalist option")
    expect(offered).to_have_count(2)
    assert offered.evaluate_all("all => all.map((each) => each.value)") == ["red-1", "red-2"]
    entry.fill("id", "red-2")
    assert "Data for ID: red-2" in entry.call("Read")
    console.tab("Prompts")
    entry = console.open("test_prompt_with_arguments")
    entry.fill("arg1", "par")
    expect(entry.element.locator("datalist option")).to_have_count(3)  # paris, park and party
    entry.fill("arg1", "one")
    entry.fill("arg2", "two")
    assert "one" in entry.call("Get the prompt")


def test_a_job_is_started_followed_and_read(tried: Server, open_console: OpenConsole) -> None:
    """The page asks once before it starts a job that may change something, as before a call of such a tool.

    It then shows the progress of the job until it ends, and its result.
    """
    console = open_console(tried.url)
    console.tab("Jobs")
    entry = console.page.get_by_role("tabpanel", name="Jobs").locator('details.entry[data-entry="export_data"]')
    entry.locator("summary").click()
    entry.locator('[data-name="rows"]').fill("3")
    entry.get_by_role("button", name="Start the job").click()
    entry.get_by_role("button", name="No", exact=True).click()
    expect(entry.get_by_role("button", name="Start the job")).to_be_focused()
    assert console.page.get_by_role("row", name="export_data").count() == 0
    entry.get_by_role("button", name="Start the job").click()
    entry.get_by_role("button", name="Yes, start it").click()
    row = console.page.get_by_role("row", name="export_data").first
    expect(row).to_contain_text("completed", timeout=60_000)
    row.get_by_role("button", name="Result of export_data").click()
    expect(row).to_contain_text("id,region,month,cents")
    entry.get_by_role("button", name="Start the job").click()
    expect(console.page.get_by_role("row", name="export_data")).to_have_count(2, timeout=60_000)
