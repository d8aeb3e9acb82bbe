"""Tests of the console with a screen reader: axe-core finds nothing, and what changes is announced."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from conftest import PACKAGE, Server
from tests.console.conftest import KEY, TABS, VERSIONS, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

AXE = PACKAGE / "tests" / "conformance" / "node_modules" / "axe-core" / "axe.min.js"
SCHEMES = pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])


def _findings(page: Page) -> list[str]:
    """Return what axe-core finds wrong on a page."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]


@pytest.mark.needs("node")
@SCHEMES
def test_axe_finds_nothing(tried: Server, open_console: OpenConsole, scheme: str) -> None:
    """axe-core has no findings in any tab, with open forms and results, in light and dark."""
    console = open_console(tried.url, scheme=scheme)
    entry = console.open("every_kind")
    entry.press("Add an item to places")
    entry.press("Add shape")
    entry.press("Call")
    echo = console.open("echo")
    echo.fill("message", "hello")
    echo.call()
    echo.element.get_by_text("Over the wire").click()
    echo.element.get_by_text("Copy as curl, Python or TypeScript").click()
    assert _findings(console.page) == []
    for tab in TABS[1:]:
        console.tab(tab)
        assert _findings(console.page) == [], tab


@pytest.mark.needs("node")
@SCHEMES
def test_axe_finds_nothing_during_calls(tried: Server, open_console: OpenConsole, scheme: str) -> None:
    """axe-core has no findings while the page asks, while a tool works, and in results of every kind."""
    console = open_console(tried.url, scheme=scheme)
    page = console.page
    entry = console.open("write_down")
    entry.press("Call")
    expect(page.get_by_role("group", name="This tool is not marked as read-only")).to_be_visible()
    asking = console.open("test_input_required_result_elicitation")
    asking.press("Call")
    asking.press("Yes, call it")
    expect(asking.element.get_by_text("What is your name?")).to_be_visible()
    address = console.open("open_address")
    address.fill("url", "https://example.com/")
    address.press("Call")
    expect(address.element.get_by_role("link")).to_be_visible()
    waiting = console.open("report_and_wait")
    waiting.fill("key", f"- of axe {scheme}")
    waiting.press("Call")
    waiting.press("Yes, call it")
    expect(waiting.element.get_by_role("progressbar")).to_be_visible()
    wrong = console.open("next_number")
    wrong.fill("number", "many")
    wrong.press("Call")
    expect(wrong.element.get_by_text("must be a whole number")).to_be_visible()
    assert _findings(page) == []
    waiting.press("Cancel")
    for tool in ("fail_with", "links", "files", "test_audio_content", "test_multiple_content_types", "hostile"):
        called = console.open(tool)
        if tool == "fail_with":
            called.fill("text", "This has failed.")
        called.call()
    expect(waiting.element.get_by_text("You have cancelled the call.")).to_be_visible()
    assert _findings(page) == []


@pytest.mark.needs("node")
@SCHEMES
def test_axe_finds_nothing_in_jobs_and_charts(tried: Server, open_console: OpenConsole, scheme: str) -> None:
    """axe-core has no findings in a job that runs, in the result of one, and in the chart of many calls."""
    console = open_console(tried.url, scheme=scheme)
    panel = console.tab("Jobs")
    rows = {}
    for name, fields in (("count_slowly", {}), ("export_data", {"rows": "3"})):
        entry = console.open_in(panel, name)
        for label, value in fields.items():
            entry.fill(label, value)
        entry.press("Start the job")
        entry.press("Yes, start it")
        rows[name] = panel.get_by_role("row", name=name).first
    expect(rows["count_slowly"]).to_contain_text("step ", timeout=60_000)
    rows["export_data"].get_by_role("button", name="Result of export_data").click(timeout=60_000)
    expect(rows["export_data"]).to_contain_text("id,region,month,cents")
    assert _findings(console.page) == []
    rows["count_slowly"].get_by_role("button", name="Cancel count_slowly").click()
    panel = console.tab("Swarm")
    panel.get_by_label("How often").fill("30")
    panel.get_by_role("button", name="Send 30 calls").click()
    expect(panel.get_by_text("30 calls answered by")).to_be_visible(timeout=60_000)
    assert _findings(console.page) == []


@pytest.mark.needs("node")
@SCHEMES
def test_axe_finds_nothing_without_access(
    tried: Server, guarded: Server, open_console: OpenConsole, scheme: str
) -> None:
    """axe-core has no findings in the page that wants a key, and in one that cannot reach the server."""
    page = open_console(guarded.url, scheme=scheme).page
    expect(page.get_by_label("Key or token")).to_be_visible()
    assert _findings(page) == []
    page.get_by_label("Key or token").fill("wrong-key")
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("alert").filter(has_text="token")).to_be_visible()
    assert _findings(page) == []
    page = open_console(tried.url, scheme=scheme).page
    page.route("**/mcp", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    assert _findings(page) == []


def _announces(region: Locator, kind: str) -> None:
    """Check that an element is a live region. It must be in the page before its text, or the text is not announced."""
    role, live = region.get_attribute("role"), region.get_attribute("aria-live")
    assert kind in (live, {"status": "polite", "alert": "assertive"}.get(role or ""))
    assert region.evaluate("each => each.checkVisibility()")  # a screen reader knows no element that is not displayed
    region.evaluate("each => { each.isOld = true; }")


def _has_announced(region: Locator, text: str | re.Pattern[str]) -> None:
    """Check that a live region, which was there before, has a text now."""
    expect(region).to_contain_text(text)
    assert region.evaluate("each => each.isOld === true")


def test_the_course_of_a_call_is_announced(tried: Server, open_console: OpenConsole) -> None:
    """A screen reader says that the call runs, each message, and who answered when. It interrupts for an error."""
    console = open_console(tried.url)
    console.speak(VERSIONS[1])
    entry = console.open("ask_and_report")
    status, log = entry.element.locator(".status"), entry.element.locator(".log")
    _announces(status, "polite")
    _announces(log, "polite")
    entry.press("Call")
    _has_announced(status, "Calling …")
    _has_announced(log, "still waiting")
    entry.press("Decline")
    _has_announced(status, re.compile("Served by replica .* ms"))
    entry = console.open("fail_with")
    error = entry.element.locator(".form > .error")
    _announces(error, "assertive")
    entry.element.get_by_role("tab", name="JSON").click()
    entry.element.get_by_label("Arguments as JSON").fill("no JSON")
    entry.press("Call")
    _has_announced(error, "This is not JSON")
    entry.element.get_by_label("Arguments as JSON").fill('{"text": "This has failed."}')
    entry.call()
    expect(entry.element.get_by_role("alert").filter(has_text="answered with an error")).to_be_visible()


def test_a_question_is_announced_with_its_text(tried: Server, open_console: OpenConsole) -> None:
    """The focus goes to the question, which has a name and a text. Each field has a name, and says what it wants."""
    console = open_console(tried.url)
    console.speak(VERSIONS[1])
    entry = console.open("test_elicitation")
    entry.fill("message", "Who are you?")
    expect(entry.element.locator('[data-name="message"]')).to_have_attribute("aria-required", "true")
    entry.press("Call")
    confirmation = entry.element.get_by_role("group", name="This tool is not marked as read-only, so it may change")
    expect(confirmation).to_be_focused()
    entry.press("Yes, call it")
    question = entry.element.get_by_role("group", name="The tool asks")
    expect(question).to_have_accessible_description("Who are you?")
    expect(question.get_by_role("heading", name="The tool asks")).to_be_focused()
    name = question.get_by_role("textbox", name="username text, required")
    expect(name).to_have_accessible_description("User's response")
    entry.press("Decline")
    assert "decline" in entry.result()


def test_lists_and_replicas_are_announced(tried: Server, open_console: OpenConsole) -> None:
    """A screen reader says how many entries a search has found, how many replicas there are, and how many calls."""
    console = open_console(tried.url)
    page = console.page
    found = page.get_by_role("tabpanel", name="Tools", exact=True).locator(".search [role=status]")
    _announces(found, "polite")
    page.get_by_label("Search the tools").fill("test_audio")
    _has_announced(found, re.compile(r"^1 of \d+ tools$"))
    panel = console.tab("Swarm")
    known, calls = panel.locator("[role=status]").first, panel.locator("[role=status]").last
    _announces(known, "polite")
    _announces(calls, "polite")
    _has_announced(known, "3 replicas are ready.")
    panel.get_by_label("How often").fill("30")
    panel.get_by_role("button", name="Send 30 calls").click()
    _has_announced(calls, "30 calls answered by")
    jobs = console.tab("Jobs").locator("> div > [role=alert], > [role=alert]")
    expect(jobs).to_have_count(2)
    for each in jobs.all():
        _announces(each, "assertive")
    page.route("**/jobs*", lambda route: route.fulfill(status=500, json={"error": "x", "message": "It is broken."}))
    _has_announced(jobs.filter(has_text="It is broken."), "It is broken.")


def test_access_is_announced(guarded: Server, open_console: OpenConsole) -> None:
    """The field of the key has the focus and a name, and a wrong key interrupts the screen reader."""
    page = open_console(guarded.url).page
    field = page.get_by_role("textbox", name="Key or token")
    expect(field).to_be_focused()
    field.fill("with a space")
    error = page.locator(".question [role=alert]")
    _announces(error, "assertive")
    page.get_by_role("button", name="Use it").click()
    _has_announced(error, "no spaces")
    status = page.locator("main > .options [role=status]")
    _announces(status, "polite")
    page.get_by_label("Key or token").fill(KEY)
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("tab", name="Tools")).to_be_focused()
