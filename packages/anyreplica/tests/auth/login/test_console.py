"""Test of the login in the console: OAuth in a window of the browser, as any client does it."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.auth.login.fleets import LoginFleet

pytestmark = [pytest.mark.needs("browser"), pytest.mark.needs("node"), pytest.mark.needs("redis")]


def _log_in(window: Page) -> None:
    """Agree to the client, type a user at the identity provider, and agree again. Then the window closes itself."""
    window.locator('button[value="approve"]').click()
    window.locator('input[name="login"]').fill("ada")
    window.locator('input[name="password"]').fill("any password")
    window.get_by_role("button", name="Sign-in").click()
    with window.expect_event("close"):
        window.get_by_role("button", name="Continue").click()


def test_a_user_logs_in(login_fleet: LoginFleet, chromium: Browser) -> None:
    """The page shows nothing before the login. After it, the user calls a tool, and the token is in no storage."""
    page = chromium.new_context().new_page()
    page.goto(f"{login_fleet.url}/")
    expect(page.get_by_label("Key or token")).to_be_visible()
    assert page.locator("details.entry").count() == 0
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Log in").click()
    _log_in(opened.value)
    page.locator('details.entry[data-entry="add"] > summary').click(timeout=60_000)
    entry = page.locator('details.entry[data-entry="add"]')
    entry.locator('[data-name="a"]').fill("2")
    entry.locator('[data-name="b"]').fill("3")
    entry.get_by_role("button", name="Call", exact=True).click()
    expect(entry.locator(".result")).to_contain_text("5")
    assert page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])") == '[{},{},""]'
