"""Tests of a hostile server: markup in names, descriptions, schemas and results runs nothing."""

import pytest
from playwright.sync_api import expect

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
