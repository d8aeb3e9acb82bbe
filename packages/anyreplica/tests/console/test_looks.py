"""Tests of what the console looks like: on a telephone, a tablet and a large screen, in light and dark."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import Server
from tests.console.conftest import TABS, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

OFTEN = {(360, "light"), (1280, "dark")}
LOOKS = [
    pytest.param(width, scheme, marks=() if (width, scheme) in OFTEN else pytest.mark.slow)
    for width in (360, 768, 1280, 1600)
    for scheme in ("light", "dark")
]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nothing_is_wider_than_the_page(
    tried: Server, open_console: OpenConsole, width: int, scheme: str, tmp_path: Path
) -> None:
    """No tab makes the page scroll sideways, with open forms, questions, results, jobs and charts.

    To look at the pages, run the test with `--basetemp`: it writes a picture of each tab.
    """
    console = open_console(tried.url, width, scheme)
    entry = console.open("every_kind")
    entry.press("Add an item to places")
    entry.press("Add shape")
    echo = console.open("echo")
    echo.fill("message", "hello " * 100)
    echo.call()
    echo.element.get_by_text("Over the wire").click()
    echo.element.get_by_text("Copy as curl, Python or TypeScript").click()
    console.open("write_down").press("Call")
    asking = console.open("test_input_required_result_elicitation")
    asking.press("Call")
    asking.press("Yes, call it")
    expect(asking.element.get_by_text("What is your name?")).to_be_visible()
    for tab in TABS:
        panel = console.tab(tab)
        if tab == "Resources":
            console.open("test://static-binary").call("Read")
        elif tab == "Prompts":
            console.open("test_simple_prompt").call("Get the prompt")
        elif tab == "Jobs":
            job = console.open_in(panel, "export_data")
            job.fill("rows", "3")
            job.press("Start the job")
            job.press("Yes, start it")
            panel.get_by_role("button", name="Result of export_data").first.click(timeout=60_000)
            expect(panel.get_by_label("Result of the job").first).to_be_visible()
        elif tab == "Swarm":
            panel.get_by_label("How often").fill("60")
            panel.get_by_role("button", name="Send 60 calls").click()
            expect(panel.get_by_text("60 calls answered by")).to_be_visible(timeout=60_000)
        assert console.page.evaluate("document.documentElement.scrollWidth") <= width, tab
        console.page.screenshot(path=tmp_path / f"{tab}-{width}-{scheme}.png", full_page=True)
