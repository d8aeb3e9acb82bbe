"""Tests of a hostile server: markup in names, descriptions, schemas and results runs nothing."""

import re

import pytest
from playwright.sync_api import Route, expect

from conftest import Server
from tests.console.conftest import OpenConsole
from tests.packs.tried import MARKUP

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


def test_markup_of_a_tool_is_text(tried: Server, open_console: OpenConsole) -> None:
    """Title, description, schema, log messages, progress, content, links and structured content stay text."""
    console = open_console(tried.url)
    page = console.page
    title = page.title()
    entry = console.open("hostile")
    expect(entry.element.get_by_text(MARKUP).first).to_be_visible()
    entry.choose("field", "<b>bold</b>")
    shown = entry.call()
    assert MARKUP in shown
    assert "<b>bold</b>" in shown
    expect(entry.element.locator(".log")).to_contain_text(MARKUP)
    entry.element.get_by_text("Over the wire").click()
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    assert entry.element.locator("img, script, b b, a").count() == 0
    assert entry.element.get_by_role("button", name=f"Read {MARKUP}").count() == 1
    console.tab("Prompts")
    prompt = console.open("hostile_prompt")
    prompt.fill("topic", MARKUP)
    assert MARKUP in prompt.call("Get the prompt")
    console.tab("Resources")
    assert MARKUP in console.open("tried://markup").call("Read")
    assert page.title() == title
    assert page.locator("main img, main script").count() == 0


def test_a_schema_that_never_ends_makes_a_form(tried: Server, open_console: OpenConsole) -> None:
    """A schema that contains itself, and one with thousands of choices, make a form at once. The rest stays usable."""
    console = open_console(tried.url)
    entry = console.open("never_ending")
    expect(entry.element.get_by_text("constructor").first).to_be_visible()
    assert console.page.locator("details[open] [data-name]").count() < 2000
    entry.fill("constructor", "built")
    entry.press("Call")
    echo = console.open("echo")
    echo.fill("message", "still here")
    assert "still here" in echo.call()


def test_very_many_messages_and_large_results_are_drawn_in_parts(tried: Server, open_console: OpenConsole) -> None:
    """The page draws the last messages, and the first parts of a result. Buttons draw the rest, part by part."""
    entry = open_console(tried.url).open("flood")
    for name, value in (("messages", "2000"), ("blocks", "1200"), ("characters", "50000")):
        entry.fill(name, value)
    entry.call()
    expect(entry.element.locator(".log li")).to_have_count(500)
    expect(entry.element.locator(".log li").last).to_contain_text("message 1999")
    expect(entry.element.locator("p.hint").filter(has_text=re.compile(r"^… \d+ more messages"))).to_be_visible()
    expect(entry.element.get_by_label("Replies")).to_contain_text("more messages, before these:")
    result = entry.element.locator(".result")
    expect(result.locator("pre")).to_have_count(500)
    text = result.locator("pre").first
    assert len(text.inner_text()) < 21_000
    text.get_by_role("button", name="… 30000 more characters").click()
    text.get_by_role("button", name="… 10000 more characters").click()
    assert text.inner_text() == "x" * 50_000
    result.get_by_role("button", name="… 701 more", exact=True).click()
    expect(result.locator("pre")).to_have_count(1000)
    result.get_by_role("button", name="… 201 more", exact=True).click()
    expect(result.locator("pre")).to_have_count(1201)
    expect(result.get_by_role("button")).to_have_count(0)


def test_a_list_with_thousands_of_tools_is_drawn_in_parts(tried: Server, open_console: OpenConsole) -> None:
    """The search finds also a tool that is not drawn yet. A description of a million characters is cut."""
    schema = {"type": "object"}
    tools = [{"name": f"tool-{number}", "inputSchema": schema, "description": "short"} for number in range(3000)]
    tools[0]["description"] = "long " * 200_000

    def answer(route: Route) -> None:
        message = route.request.post_data_json or {}
        if message["method"] != "tools/list":
            route.continue_()
            return
        route.fulfill(json={"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}})

    console = open_console(tried.url)
    page = console.page
    page.route("**/mcp", answer)
    page.reload()
    panel = page.get_by_role("tabpanel", name="Tools")
    expect(panel.locator("details.entry")).to_have_count(500)
    expect(panel.get_by_text("3000 of 3000 tools")).to_be_visible()
    assert len(panel.locator("details.entry").first.inner_text()) < 21_000
    panel.get_by_role("button", name="… 2500 more").click()
    expect(panel.locator("details.entry")).to_have_count(1000)
    page.get_by_label("Search the tools").fill("tool-2999")
    expect(panel.locator("details.entry")).to_have_count(1)
    console.open("tool-2999")
    expect(panel.get_by_role("tab", name="Form", exact=True)).to_be_visible()


def test_the_policy_blocks_what_the_page_does_not_have(tried: Server, open_console: OpenConsole) -> None:
    """Even if markup became an element, its script would not run, and nothing would be loaded from another host."""
    console = open_console(tried.url)
    blocked = console.page.evaluate(
        """async () => {
          const found = [];
          document.addEventListener("securitypolicyviolation", (event) => found.push(event.effectiveDirective));
          const script = document.createElement("script");
          try { script.textContent = "document.title = 'taken'"; document.body.append(script); }
          catch { found.push("trusted-types"); }
          const image = new Image();
          image.src = "http://127.0.0.1:1/x.png";
          document.body.append(image);
          try { await fetch("http://127.0.0.1:1/"); } catch { found.push("fetch"); }
          await new Promise((resolve) => setTimeout(resolve, 100));
          return [found, document.title];
        }"""
    )
    found, title = blocked
    assert {"trusted-types", "img-src", "connect-src", "fetch"} <= set(found)
    assert title != "taken"
    console.problems.clear()  # the browser writes a line for each of these attempts
