"""Tests of the forms of the console: a field for every kind of argument, and the same values as JSON."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from conftest import Server
from tests.console.conftest import VERSIONS, Entry, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

DEFAULTS = {"size": "large", "times": 3, "note": "nothing", "wanted": True}
"""The default values of the tool `formats`."""
FILLED: dict[str, Any] = {
    "day": "2026-07-28",
    "hour": "10:30:00",
    "moment": "2026-07-28T10:30:00+00:00",
    "mail": "ada@example.com",
    "site": "https://example.com/a?b=c",
    "pair": [7, "seven"],
}
"""Values of its other arguments."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_form_has_a_field_for_every_kind_of_argument(tried: Server, open_console: OpenConsole, version: str) -> None:
    """A call sends what the form shows: nested objects, lists, choices, unions, maps and free JSON."""
    console = open_console(tried.url)
    console.speak(version)
    entry = console.open("every_kind")
    entry.fill("text", "héllo")
    entry.fill("number", "7")
    entry.choose("colour", "blue")
    entry.choose("sure", "yes")
    entry.press("Add an item to places")
    entry.fill("city", "Paris")
    entry.press("Add inside")
    expect(entry.element.locator('[data-name="city"]').nth(1)).to_be_focused()
    entry.element.locator('[data-name="city"]').nth(1).fill("France")
    entry.press("Add counts")
    entry.press("Add an item to counts")
    entry.fill("name", "apples")
    entry.fill("value", "3")
    entry.press("Add shape")
    entry.choose("shape", "Square")
    entry.choose("kind", "square")
    entry.fill("side", "2.5")
    entry.fill("anything", '{"a": [1, null]}')
    shown = entry.call()
    found = json.loads(shown[shown.index("Structured content") + len("Structured content") : shown.index("The same")])
    entry.element.get_by_text("The same values as text").click()
    text = entry.element.get_by_label("Text", exact=True).inner_text()
    assert found == json.loads(text)
    assert found == {
        "text": "héllo",
        "number": 7,
        "colour": "blue",
        "sure": True,
        "places": [{"city": "Paris", "inside": {"city": "France"}}],
        "ratio": 0.5,
        "counts": {"apples": 3},
        "shape": {"kind": "square", "side": 2.5},
        "anything": {"a": [1, None]},
    }
    expect(entry.element.locator(".status")).to_contain_text("Served by")


def test_the_json_view_and_the_form_have_the_same_values(tried: Server, open_console: OpenConsole) -> None:
    """What the form has is in the JSON view, and what is written there comes back to the form."""
    entry = open_console(tried.url).open("echo")
    entry.fill("message", "from the form")
    entry.element.get_by_role("tab", name="JSON").click()
    json_view = entry.element.get_by_label("Arguments as JSON")
    assert json.loads(json_view.input_value())["message"] == "from the form"
    json_view.fill("not JSON")
    entry.element.get_by_role("tab", name="Form").click()
    expect(entry.element.get_by_text("This is not JSON")).to_be_visible()
    json_view.fill('{"message": "from JSON", "repeat": 2}')
    entry.element.get_by_role("tab", name="Form").click()
    expect(entry.element.locator('[data-name="message"]')).to_have_value("from JSON")
    assert "from JSON from JSON" in entry.call()


def test_wrong_values_are_shown_beside_the_form(tried: Server, open_console: OpenConsole) -> None:
    """The page refuses what is no number. The server refuses the rest, and the page shows its error."""
    entry = open_console(tried.url).open("every_kind")
    entry.press("Call")
    expect(entry.element.get_by_text("text: a text is required.")).to_be_visible()
    expect(entry.element.locator('[data-name="text"]')).to_have_attribute("aria-invalid", "true")
    entry.fill("text", "some text")
    entry.fill("number", "many")
    entry.press("Call")
    expect(entry.element.get_by_text("number: must be a whole number.")).to_be_visible()
    entry.fill("number", "10")
    assert "number" in entry.call()
    assert entry.element.locator(".result.failed").count() == 1


def test_long_numbers_keep_their_digits(tried: Server, open_console: OpenConsole) -> None:
    """Whole numbers beyond 2^53 keep their digits: in fields, in JSON, over the wire, in code and in results."""
    entry = open_console(tried.url).open("next_number")
    entry.fill("number", "9007199254740993")
    entry.fill("anything", '{"a": [-9223372036854775807, 1.5]}')
    shown = entry.call()
    assert "9007199254740994" in shown
    assert "-9223372036854775807" in shown
    entry.element.get_by_text("Over the wire").click()
    expect(entry.element.get_by_label("Requests")).to_contain_text("9007199254740993")
    expect(entry.element.get_by_label("Replies")).to_contain_text("9007199254740994")
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    expect(entry.element.get_by_label("The call with curl")).to_contain_text("9007199254740993")
    entry.element.get_by_role("tab", name="Python").click()
    expect(entry.element.get_by_label("The call in Python")).to_contain_text("9007199254740993")
    entry.element.get_by_role("tab", name="JSON").click()
    json_view = entry.element.get_by_label("Arguments as JSON")
    assert json.loads(json_view.input_value())["number"] == 9007199254740993
    json_view.fill('{"number": 9007199254740995}')
    entry.element.get_by_role("tab", name="Form").click()
    expect(entry.element.locator('[data-name="number"]')).to_have_value("9007199254740995")
    assert "9007199254740996" in entry.call()


def test_a_browser_that_rounds_sends_no_long_number(tried: Server, open_console: OpenConsole) -> None:
    """Without `JSON.rawJSON`, the form refuses a number that the browser would round."""
    console = open_console(tried.url)
    console.page.add_init_script("delete JSON.rawJSON")
    console.page.reload()
    entry = console.open("next_number")
    entry.fill("number", "9007199254740993")
    entry.press("Call")
    expect(entry.element.get_by_text("too large for a browser to send exactly")).to_be_visible()
    entry.fill("number", "41")
    assert "42" in entry.call()


def test_a_form_begins_with_the_default_values(tried: Server, open_console: OpenConsole) -> None:
    """A field has the default value of its argument, a choice also says which one it is, and the call sends them."""
    console = open_console(tried.url)
    expect(console.open("every_kind").element.locator('[data-name="ratio"]')).to_have_value("0.5")
    entry = console.open("formats")
    expect(entry.element.locator('[data-name="times"]')).to_have_value("3")
    expect(entry.element.locator('[data-name="note"]')).to_have_value("nothing")
    for name, chosen in (("size", "large (default)"), ("wanted", "yes (default)")):
        expect(entry.element.locator(f'select[data-name="{name}"] option:checked')).to_have_text(chosen)
    _fill_formats(entry)
    entry.call()
    entry.element.get_by_text("Over the wire").click()
    sent = entry.element.get_by_label("Requests").inner_text()
    arguments = json.loads(sent[sent.index("{") :])["params"]["arguments"]
    assert {name: arguments[name] for name in DEFAULTS} == DEFAULTS


def test_each_format_of_a_text_has_an_input_of_its_kind(tried: Server, open_console: OpenConsole) -> None:
    """A browser offers a calendar, a clock or a keyboard for it. A tuple has one field for each of its items."""
    entry = open_console(tried.url).open("formats")
    kinds = {"day": "date", "hour": "time", "mail": "email", "site": "url"}
    for name, kind in kinds.items():
        expect(entry.element.locator(f'[data-name="{name}"]')).to_have_attribute("type", kind)
    expect(entry.element.locator('[data-name="moment"]')).to_have_attribute("placeholder", "2026-07-28T12:00:00Z")
    expect(entry.element.get_by_label("item 1 of pair")).to_have_attribute("inputmode", "numeric")
    _fill_formats(entry)
    shown = entry.call()
    assert json.loads(shown[shown.index("{") : shown.rindex("}") + 1]) == FILLED | DEFAULTS


def test_a_form_loses_no_value_that_its_inputs_cannot_have(tried: Server, open_console: OpenConsole) -> None:
    """An input for dates refuses other texts. The form then shows a plain text, so that the call sends it as it is."""
    entry = open_console(tried.url).open("formats")
    entry.element.get_by_role("tab", name="JSON").click()
    json_view = entry.element.get_by_label("Arguments as JSON")
    json_view.fill('{"day": "tomorrow", "hour": "10:30:00+02:00"}')
    entry.element.get_by_role("tab", name="Form").click()
    expect(entry.element.locator('[data-name="day"]')).to_have_value("tomorrow")
    expect(entry.element.locator('[data-name="hour"]')).to_have_value("10:30:00+02:00")
    entry.element.get_by_role("tab", name="JSON").click()
    json_view.fill('{"day": "2026-07-28", "hour": "10:30"}')
    entry.element.get_by_role("tab", name="Form").click()
    expect(entry.element.locator('[data-name="day"]')).to_have_value("2026-07-28")
    expect(entry.element.locator('[data-name="day"]')).to_have_attribute("type", "date")


def _fill_formats(entry: Entry) -> None:
    """Fill the fields that have no default value."""
    for name in ("day", "hour", "moment", "mail", "site"):
        entry.fill(name, str(FILLED[name]))
    for number, value in enumerate(FILLED["pair"], 1):
        entry.fill(f"item {number} of pair", str(value))
