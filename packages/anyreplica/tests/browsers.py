"""A browser for tests: Debian's Chromium, which Playwright controls."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """A browser without a window. It ends with the file, because its event loop would disturb async tests."""
    from playwright.sync_api import sync_playwright  # most tests need no browser

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield found
        found.close()
