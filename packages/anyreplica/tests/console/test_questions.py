"""Tests of the questions that a tool asks in the console, and of what the tool sends meanwhile."""

import contextlib
from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import Server
from tests.console.conftest import VERSIONS, OpenConsole
from tests.replicas import RoundRobin

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


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
    console.speak(version)
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
    console.speak(VERSIONS[1])
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
        console.speak(VERSIONS[1])
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
    console.speak(VERSIONS[1])
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


@pytest.mark.parametrize(
    ("version", "tool"), [(VERSIONS[0], "open_address"), (VERSIONS[1], "open_address"), (VERSIONS[1], "visit")]
)
def test_a_tool_sends_the_user_to_an_address(tried: Server, open_console: OpenConsole, version: str, tool: str) -> None:
    """The page shows the address as a link that opens in a window of its own, and sends what the user chooses."""
    console = open_console(tried.url)
    console.speak(version)
    entry = console.open(tool)
    for button, action in (("Send the answer", "accept"), ("Decline", "decline")):
        if tool == "open_address":
            entry.fill("url", "https://example.com/")
        entry.press("Call")
        if tool == "visit" and action == "accept":
            entry.press("Yes, call it")
        question = entry.element.get_by_role("group", name="The tool asks")
        expect(question).to_contain_text("The server asks you to open this address:")
        link = question.get_by_role("link", name="https://example.com/")
        expect(link).to_have_attribute("href", "https://example.com/")
        expect(link).to_have_attribute("rel", "noreferrer noopener")
        expect(link).to_have_attribute("target", "_blank")
        entry.press(button)
        assert action in entry.result()
        expect(question).to_have_count(0)


def test_an_address_that_runs_a_script_is_no_link(tried: Server, open_console: OpenConsole) -> None:
    """The page opens only addresses of the web. Others are shown as text."""
    entry = open_console(tried.url).open("open_address")
    for url in ("javascript:document.title='taken'", "data:text/html,<script>1</script>", "file:///etc/passwd"):
        entry.fill("url", url)
        entry.press("Call")
        question = entry.element.locator(".question")
        expect(question).to_contain_text(f"{url} (this page opens only addresses of the web)")
        assert question.locator("a").count() == 0
        entry.press("Decline")
        assert "decline" in entry.result()


def test_a_user_may_decline_a_question(tried: Server, open_console: OpenConsole) -> None:
    """The tool gets to know that the user does not answer. What the user has typed is not sent."""
    console = open_console(tried.url)
    console.speak(VERSIONS[1])
    entry = console.open("greet")
    entry.press("Call")
    entry.press("Yes, call it")
    entry.element.locator(".question [data-name]").first.fill("a secret")
    entry.press("Decline")
    assert "You said decline." in entry.result()
    entry.element.get_by_text("Over the wire").click()
    expect(entry.element.get_by_label("Requests")).to_contain_text('"action": "decline"')
    expect(entry.element.get_by_label("Requests")).not_to_contain_text("a secret")
