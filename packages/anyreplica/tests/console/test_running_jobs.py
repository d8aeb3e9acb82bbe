"""Tests of jobs that run: the console follows their progress, and ends them."""

import re

import httpx
import pytest
from playwright.sync_api import Locator, expect

from conftest import Server, until
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


def _progress(row: Locator) -> float:
    """Return the progress that a row shows, in percent."""
    shown: float = row.get_by_role("progressbar").evaluate("each => each.value")
    return shown


def test_a_job_is_followed_and_cancelled(tried: Server, open_console: OpenConsole) -> None:
    """The progress rises while the job runs, as its bar and as its message. *Cancel* ends it in the worker, too."""
    console = open_console(tried.url)
    panel = console.tab("Jobs")
    entry = console.open_in(panel, "count_slowly")
    entry.press("Start the job")
    entry.press("Yes, start it")
    row = panel.get_by_role("row", name="count_slowly").first
    expect(row).to_contain_text(re.compile(r"step \d+"), timeout=60_000)
    expect(row).to_contain_text("running")
    first = _progress(row)
    until(lambda: _progress(row) > first, "the progress rises")
    step = re.search(r"step (\d+)", row.inner_text())
    assert step is not None
    assert 0 < int(step[1]) < 100
    row.get_by_role("button", name="Cancel count_slowly").click()
    expect(row).to_contain_text("cancelled", timeout=20_000)
    ended = _progress(row)
    number = row.locator("small").inner_text()
    assert httpx.get(f"{tried.url}/jobs/{number}").json()["status"] == "cancelled"
    row.get_by_role("button", name="Result of count_slowly").click()
    expect(row.get_by_label("Result of the job")).to_contain_text("cancelled")
    assert _progress(row) == ended


def test_a_job_that_fails_says_why(tried: Server, open_console: OpenConsole) -> None:
    """The row has the reason that the job gives. The form refuses wrong arguments before the job starts."""
    console = open_console(tried.url)
    panel = console.tab("Jobs")
    entry = console.open_in(panel, "fails_slowly")
    entry.fill("times", "many")
    entry.press("Start the job")
    expect(entry.element.get_by_text("times: must be a whole number.")).to_be_visible()
    entry.fill("times", "-1")
    entry.press("Start the job")
    entry.press("Yes, start it")
    expect(panel.get_by_role("alert").filter(has_text="times")).to_be_visible()  # the server refuses it
    entry.fill("times", "2")
    entry.press("Start the job")
    row = panel.get_by_role("row", name="fails_slowly").first
    expect(row).to_contain_text("failed", timeout=60_000)
    expect(row).to_contain_text("There is no page 2.")
    expect(panel.get_by_role("alert").filter(has_text="times")).to_have_count(0)
