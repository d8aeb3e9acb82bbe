"""Tests of results in the console: each kind of content is shown as such."""

import base64

import pytest
from playwright.sync_api import expect

from conftest import Server
from tests.console.conftest import VERSIONS, Entry, OpenConsole
from tests.packs.shown import ZIP

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

VARIANTS = [VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.slow)]
"""Both versions, of which `.ci/run` runs the second one for some tests only."""


@pytest.mark.parametrize("version", VARIANTS)
@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        ("test_multiple_content_types", "img"),
        ("test_image_content", "img"),
        ("test_audio_content", "audio"),
        ("test_embedded_resource", 'pre[aria-label="Resource test://embedded-resource"]'),
        ("test_error_handling", ".error"),
    ],
)
def test_each_kind_of_content_is_shown(
    tried: Server, open_console: OpenConsole, version: str, tool: str, shown: str
) -> None:
    """Images, audio, resources and errors are shown as such."""
    console = open_console(tried.url)
    console.speak(version)
    entry = console.open(tool)
    entry.call()
    expect(entry.element.locator(f".result {shown}").first).to_be_visible()


def test_embedded_resources_are_shown_with_their_addresses(tried: Server, open_console: OpenConsole) -> None:
    """A text and an image are shown, and other bytes are saved as a file."""
    console = open_console(tried.url)
    entry = console.open("files")
    shown = entry.call()
    for name, kind in (("notes.txt", "text/plain"), ("red.png", "image/png"), ("all.zip", "application/zip")):
        assert f"Resource shown://{name} {kind}" in shown
    expect(entry.element.get_by_label("Resource shown://notes.txt")).to_have_text("some notes")
    image = entry.element.get_by_role("img", name="Image of the result (image/png)")
    expect(image).to_have_js_property("naturalWidth", 1)
    with console.page.expect_download() as saving:
        entry.press("Save 22 bytes (application/zip)")
    assert saving.value.suggested_filename == "all.zip"
    assert saving.value.path().read_bytes() == base64.b64decode(ZIP)


def test_links_lead_to_pages_and_resources(tried: Server, open_console: OpenConsole) -> None:
    """A page opens in a window of its own, which knows nothing of this one. A resource opens its entry."""
    console = open_console(tried.url)
    console.tab("Resources").get_by_role("searchbox").fill("a search that hides all resources")
    console.tab("Tools")
    entry = console.open("links")
    assert "https://example.com/page" in entry.call()
    page = entry.element.get_by_role("link", name="page")
    expect(page).to_have_attribute("href", "https://example.com/page")
    expect(page).to_have_attribute("target", "_blank")
    expect(page).to_have_attribute("rel", "noreferrer noopener")
    entry.press("Read lost")
    expect(entry.element.get_by_text("lost://thing is not in the list of resources")).to_be_visible()
    entry.press("Read about")
    expect(console.page.get_by_role("tab", name="Resources")).to_have_attribute("aria-selected", "true")
    about = console.page.locator('details.entry[data-entry="template://about"]')
    expect(about).to_have_attribute("open", "")
    expect(about.locator("summary").first).to_be_focused()
    assert "identical replicas" in Entry(about).call("Read")
