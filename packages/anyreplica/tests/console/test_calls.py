"""Tests of calls from the console: forms of every kind, both protocol versions, questions, and the call in code."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from conftest import PACKAGE, Server, environment, until
from tests.console.conftest import OpenConsole
from tests.replicas import RoundRobin

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]

VERSIONS = ["2026-07-28 (stateless)", "2025-11-25 (handshake)"]
VARIANTS = [VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.slow)]
"""Both versions, of which `.ci/run` runs the second one for some tests only."""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_form_has_a_field_for_every_kind_of_argument(tried: Server, open_console: OpenConsole, version: str) -> None:
    """A call sends what the form shows: nested objects, lists, choices, unions, maps and free JSON."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=version)
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


@pytest.mark.parametrize("version", VARIANTS)
@pytest.mark.parametrize(
    ("tool", "shown"),
    [
        ("test_multiple_content_types", "img"),
        ("test_image_content", "img"),
        ("test_audio_content", "audio"),
        ("test_embedded_resource", "pre"),
        ("test_error_handling", ".error"),
    ],
)
def test_each_kind_of_content_is_shown(
    tried: Server, open_console: OpenConsole, version: str, tool: str, shown: str
) -> None:
    """Images, audio, resources and errors are shown as such."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=version)
    entry = console.open(tool)
    entry.call()
    expect(entry.element.locator(f".result {shown}").first).to_be_visible()


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_and_log_messages_are_shown_while_the_tool_runs(
    tried: Server, open_console: OpenConsole, version: str
) -> None:
    """Each message of the tool is a line."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=version)
    entry = console.open("test_tool_with_progress")
    entry.press("Call")
    entry.press("Yes, call it")
    assert "three times" in entry.result()
    expect(entry.element.locator(".log")).to_contain_text("50 of 100")
    if version == VERSIONS[0]:  # a client of the handshake protocol would have to choose a level first
        entry = console.open("test_tool_with_logging")
        entry.press("Call")
        entry.press("Yes, call it")
        assert "Three messages" in entry.result()
        expect(entry.element.locator(".log")).to_contain_text("Tool processing data")


@pytest.mark.parametrize(
    ("version", "tool"),
    [
        (VERSIONS[0], "test_input_required_result_elicitation"),
        (VERSIONS[1], "test_input_required_result_elicitation"),
        (VERSIONS[1], "greet"),  # `await ctx.elicit` asks clients of the handshake protocol only
    ],
)
def test_a_tool_asks_in_the_page(tried: Server, open_console: OpenConsole, version: str, tool: str) -> None:
    """The page shows the question as a form and sends the answer, in both forms of asking."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=version)
    entry = console.open(tool)
    entry.press("Call")
    entry.press("Yes, call it")
    expect(entry.element.get_by_text("What is your name?")).to_be_visible()
    name = entry.element.locator(".question [data-name]").first
    name.fill("Ada")
    name.press("Control+Enter")
    assert "Hello, Ada!" in entry.result()
    expect(entry.element.get_by_role("button", name="Call", exact=True)).to_be_focused()


def test_progress_goes_on_while_a_question_is_open(tried: Server, open_console: OpenConsole) -> None:
    """The page shows what the tool sends while the user thinks about an answer."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=VERSIONS[1])
    entry = console.open("ask_and_report")
    entry.press("Call")
    expect(entry.element.get_by_text("What is your name?")).to_be_visible()
    shown = entry.element.locator(".log li").count()
    expect(entry.element.locator(".log li").nth(shown + 3)).to_contain_text("still waiting")
    entry.element.locator(".question [data-name]").first.fill("Ada")
    entry.press("Send the answer")
    assert "Hello, Ada!" in entry.result()


def test_a_call_goes_on_after_a_broken_connection(tried: Server, open_console: OpenConsole) -> None:
    """With sessions, the page resumes the event stream of a call, and its question stays open."""
    with contextlib.closing(RoundRobin([tried.port])) as proxy:
        console = open_console(proxy.url)
        console.page.get_by_label("Protocol version").select_option(label=VERSIONS[1])
        entry = console.open("ask_and_report")
        entry.press("Call")
        expect(entry.element.get_by_text("What is your name?")).to_be_visible()
        proxy.cut()
        shown = entry.element.locator(".log li").count()
        expect(entry.element.locator(".log li").nth(shown + 3)).to_contain_text("still waiting")
        entry.element.locator(".question [data-name]").first.fill("Ada")
        entry.press("Send the answer")
        assert "Hello, Ada!" in entry.result()
        expect(entry.element.get_by_label("Requests")).to_contain_text("Last-Event-ID")


def test_a_question_that_the_server_withdraws_is_closed(
    tried: Server, open_console: OpenConsole, tmp_path: Path
) -> None:
    """The form of a question goes away when the tool no longer waits for its answer, and the call goes on."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=VERSIONS[1])
    entry = console.open("ask_twice")
    entry.fill("file", str(tmp_path / "stop"))
    entry.press("Call")
    expect(entry.element.get_by_text("What is your name?")).to_be_visible()
    (tmp_path / "stop").touch()
    expect(entry.element.get_by_text("Which town?")).to_be_visible()
    expect(entry.element.locator(".question")).to_have_count(1)
    entry.element.locator(".question [data-name]").first.fill("York")
    entry.press("Send the answer")
    assert "From York." in entry.result()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_can_be_cancelled(tried: Server, open_console: OpenConsole, version: str) -> None:
    """The button ends the call at the server, too: the slot is free again and the page is ready for the next call."""
    console = open_console(tried.url)
    console.page.get_by_label("Protocol version").select_option(label=version)
    entry = console.open("nap")
    entry.fill("seconds", "600")
    entry.press("Call")
    entry.press("Yes, call it")
    until(lambda: _in_flight(tried.url) == 1, "the call runs in a replica")
    entry.press("Cancel")
    assert "You have cancelled the call." in entry.result()
    until(lambda: _in_flight(tried.url) == 0, "no replica runs it any more", seconds=20)
    entry.fill("seconds", "0")
    entry.press("Call")
    expect(entry.element.locator(".result")).to_contain_text("0")


def test_a_change_of_the_version_cancels_what_runs(tried: Server, open_console: OpenConsole) -> None:
    """The call ends in its own session. No request of the new version, or of a later session, has the old session."""
    console = open_console(tried.url)
    sent = list[dict[str, str]]()
    console.page.on("request", lambda each: sent.append({**each.headers, "body": each.post_data or ""}))
    console.page.get_by_label("Protocol version").select_option(label=VERSIONS[1])
    entry = console.open("nap")
    entry.fill("seconds", "600")
    entry.press("Call")
    entry.press("Yes, call it")
    until(lambda: _in_flight(tried.url) == 1, "the call runs in a replica")
    old = {each["mcp-session-id"] for each in sent if "mcp-session-id" in each}
    assert len(old) == 1
    at = len(sent)
    console.page.get_by_label("Protocol version").select_option(label=VERSIONS[0])
    echo = console.open("echo")
    echo.fill("message", "in the new version")
    assert "in the new version" in echo.call()
    until(lambda: _in_flight(tried.url) == 0, "no replica runs the call any more", seconds=20)
    (cancelled,) = (each for each in sent[at:] if "notifications/cancelled" in each["body"])
    assert cancelled["mcp-session-id"] in old
    assert cancelled["mcp-protocol-version"] == "2025-11-25"
    later = [each for each in sent[at:] if each is not cancelled]
    assert not [each for each in later if "mcp-session-id" in each]
    console.page.get_by_label("Protocol version").select_option(label=VERSIONS[1])
    again = console.open("echo")
    again.fill("message", "in a new session")
    assert "in a new session" in again.call()
    sessions = {each["mcp-session-id"] for each in sent[at:] if each is not cancelled and "mcp-session-id" in each}
    assert len(sessions) == 1
    assert sessions.isdisjoint(old)


def _in_flight(url: str) -> int:
    """Return the number of requests in flight in all replicas, a second ago."""
    replicas = httpx.get(f"{url}/replicas").json()["replicas"]
    return sum(int(each["in_flight"]) for each in replicas)


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


def test_a_tool_that_may_change_something_asks_once(tried: Server, open_console: OpenConsole) -> None:
    """Without `readOnlyHint`, the first call needs a confirmation. Read-only tools need none."""
    console = open_console(tried.url)
    entry = console.open("remove_all")
    expect(entry.element.get_by_text("destructive")).to_be_visible()
    entry.press("Call")
    entry.press("No")
    assert entry.element.locator(".result").count() == 0
    entry.press("Call")
    entry.press("Yes, call it")
    assert "Everything is removed." in entry.result()
    entry.press("Call")
    expect(entry.element.locator(".status")).to_contain_text("Served by")
    assert entry.element.get_by_role("button", name="Yes, call it").count() == 0


def test_resources_prompts_and_completions(tried: Server, open_console: OpenConsole) -> None:
    """A resource is read, a template has fields for its variables, and a prompt shows its messages."""
    console = open_console(tried.url)
    console.tab("Resources")
    assert "identical replicas" in console.open("template://about").call("Read")
    entry = console.open("template://greeting/{language}/{name}")
    entry.fill("language", "en")
    entry.fill("name", "Ada Lovelace")
    assert "Ada Lovelace" in entry.call("Read")
    console.tab("Prompts")
    entry = console.open("test_prompt_with_arguments")
    entry.fill("arg1", "par")
    expect(entry.element.locator("datalist option")).to_have_count(3)  # paris, park and party
    entry.fill("arg1", "one")
    entry.fill("arg2", "two")
    assert "one" in entry.call("Get the prompt")


def test_a_call_as_code_gives_the_same_result(tried: Server, open_console: OpenConsole) -> None:
    """The curl command and the Python program that the page shows run as they are."""
    entry = open_console(tried.url).open("echo")
    entry.fill("message", 'it\'s "quoted" $HOME \\n héllo')
    shown = entry.call()
    assert 'it\'s "quoted" $HOME \\n héllo' in shown
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    curl = entry.element.get_by_label("The call with curl").inner_text()
    answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "héllo" in answer
    entry.element.get_by_role("tab", name="Python").click()
    program = entry.element.get_by_label("The call in Python").inner_text()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=environment()
    )
    assert "héllo" in done.stdout


@pytest.mark.needs("node")
def test_a_call_as_typescript_gives_the_same_result(tried: Server, open_console: OpenConsole, tmp_path: Path) -> None:
    """The TypeScript program that the page shows runs as it is."""
    entry = open_console(tried.url).open("echo")
    entry.fill("message", "from TypeScript")
    entry.call()
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    entry.element.get_by_role("tab", name="TypeScript").click()
    program = tmp_path / "program.mjs"
    program.write_text(entry.element.get_by_label("The call in TypeScript").inner_text())
    modules = PACKAGE / "tests" / "conformance" / "node_modules"
    (tmp_path / "node_modules").symlink_to(modules)
    node = modules / ".bin" / "node"
    done = subprocess.run([node, program], capture_output=True, text=True, check=True, timeout=60)
    assert "from TypeScript" in done.stdout


def test_a_job_is_started_followed_and_read(tried: Server, open_console: OpenConsole) -> None:
    """The page asks once before it starts a job that may change something, as before a call of such a tool.

    It then shows the progress of the job until it ends, and its result.
    """
    console = open_console(tried.url)
    console.tab("Jobs")
    entry = console.page.get_by_role("tabpanel", name="Jobs").locator('details.entry[data-entry="export_data"]')
    entry.locator("summary").click()
    entry.locator('[data-name="rows"]').fill("3")
    entry.get_by_role("button", name="Start the job").click()
    entry.get_by_role("button", name="No", exact=True).click()
    expect(entry.get_by_role("button", name="Start the job")).to_be_focused()
    assert console.page.get_by_role("row", name="export_data").count() == 0
    entry.get_by_role("button", name="Start the job").click()
    entry.get_by_role("button", name="Yes, start it").click()
    row = console.page.get_by_role("row", name="export_data").first
    expect(row).to_contain_text("completed", timeout=60_000)
    row.get_by_role("button", name="Result of export_data").click()
    expect(row).to_contain_text("id,region,month,cents")
    entry.get_by_role("button", name="Start the job").click()
    expect(console.page.get_by_role("row", name="export_data")).to_have_count(2, timeout=60_000)
