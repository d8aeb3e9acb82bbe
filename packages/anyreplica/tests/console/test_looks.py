"""Tests of what the console looks like, and of its use without a mouse and with a screen reader."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from conftest import PACKAGE, Server
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

TABS = ("Tools", "Resources", "Prompts", "Jobs", "Swarm", "Connect")
AXE = PACKAGE / "tests" / "conformance" / "node_modules" / "axe-core" / "axe.min.js"


def _findings(page: Page) -> list[str]:
    """Return what axe-core finds wrong on a page."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [f"{each['id']}: {node['html']}" for each in found["violations"] for node in each["nodes"]]


@pytest.mark.needs("node")
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("width", [360, 1280, *(pytest.param(each, marks=pytest.mark.slow) for each in (768, 1600))])
def test_nothing_is_wider_than_the_page(tried: Server, open_console: OpenConsole, width: int, tmp_path: Path) -> None:
    """No tab makes the page scroll sideways, with open forms and results."""
    console = open_console(tried.url, width)
    entry = console.open("every_kind")
    entry.press("Add an item to places")
    entry.press("Add shape")
    echo = console.open("echo")
    echo.fill("message", "hello " * 100)
    echo.call()
    echo.element.get_by_text("Over the wire").click()
    for tab in TABS:
        console.tab(tab)
        assert console.page.evaluate("document.documentElement.scrollWidth") <= width, tab
        console.page.screenshot(path=tmp_path / f"{tab}-{width}.png", full_page=True)


def test_the_keyboard_reaches_everything(tried: Server, open_console: OpenConsole) -> None:
    """A tool is found, called and read with the keyboard alone."""
    page = open_console(tried.url).page
    page.get_by_role("tab", name="Tools").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Resources")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.type("write_down")
    expect(page.get_by_text(re.compile(r"^1 of \d+ tools$"))).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Form", exact=True)).to_be_visible()
    page.keyboard.press("Tab")  # the tabs Form and JSON
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    page.keyboard.press("Control+Enter")
    question = page.get_by_role("group", name="This tool is not marked as read-only")
    expect(question).to_be_focused()  # not its button, which a held key would press
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Yes, call it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".output .result")).to_contain_text("typed")
    expect(page.get_by_role("button", name="Call", exact=True)).to_be_focused()
