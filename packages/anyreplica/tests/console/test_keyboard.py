"""Tests of the console with the keyboard alone: everything is reached with a few keys, and the focus is visible."""

import pytest
from playwright.sync_api import Locator, Page, expect

from conftest import Server
from tests.console.conftest import KEY, TABS, VERSIONS, OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


class Keyboard:
    """A user without a mouse."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        """Write into the element that has the focus, instead of what it has."""
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def choose(self, select: Locator, title: str) -> None:
        """Press the arrow in a list until it shows a choice."""
        chosen = select.locator("option:checked")
        for _ in range(select.locator("option").count()):
            if chosen.inner_text() != title:
                self.press("ArrowDown")
        expect(chosen).to_have_text(title)

    def go_to(self, target: Locator, key: str = "Tab", most: int = 60) -> None:
        """Press Tab until an element has the focus. The browser must then draw a line around it."""
        expect(target).to_be_visible()
        for _ in range(most):
            if target.evaluate("each => each === document.activeElement"):
                assert target.evaluate("each => getComputedStyle(each).outlineStyle") != "none"
                return
            self.press(key)
        pytest.fail(f"{most} times {key} have not reached {target}")

    def use(self, target: Locator) -> None:
        """Go to a button or a summary, and press it."""
        self.go_to(target)
        self.press("Enter")

    def tab(self, title: str) -> Locator:
        """Go to the tabs of the page, show one with the arrows, and return its panel."""
        tab = self.page.get_by_role("tab", name=title, exact=True)
        is_first = self.page.evaluate("document.activeElement === document.body")
        shown = self.page.locator('.tabs [role="tab"][aria-selected="true"]').first
        self.go_to(shown, "Tab" if is_first else "Shift+Tab")
        self.press("Home", *("ArrowRight" for _ in range(TABS.index(title))))
        expect(tab).to_be_focused()
        panel = self.page.get_by_role("tabpanel", name=title, exact=True)
        expect(panel).to_be_visible()
        return panel

    def open(self, panel: Locator, name: str) -> Locator:
        """Search an entry in a panel with a search, and open it."""
        self.go_to(panel.get_by_role("searchbox"))
        self.write(name)
        entry = panel.locator(f'details.entry[data-entry="{name}"]')
        self.use(entry.locator("summary").first)
        return entry


def test_the_keyboard_reaches_every_tab(tried: Server, open_console: OpenConsole) -> None:
    """The arrows, Home and End go from tab to tab, and the protocol version is a list like any other."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    tabs = [page.get_by_role("tab", name=title, exact=True) for title in TABS]
    keys.go_to(page.get_by_label("Protocol version"))
    keys.press("ArrowDown")
    expect(page.get_by_label("Protocol version")).to_have_value("2025-11-25")
    keys.press("ArrowUp")
    expect(page.get_by_label("Protocol version")).to_be_focused()
    keys.go_to(tabs[0])
    for each in (*tabs[1:], tabs[0]):
        keys.press("ArrowRight")
        expect(each).to_be_focused()
        expect(each).to_have_attribute("aria-selected", "true")
    for key, each in (("ArrowLeft", tabs[-1]), ("ArrowLeft", tabs[-2]), ("Home", tabs[0]), ("End", tabs[-1])):
        keys.press(key)
        expect(each).to_be_focused()
    panel = page.get_by_role("tabpanel", name="Connect")
    keys.go_to(panel.locator("pre").first)  # a long text can be scrolled


def test_the_keyboard_calls_a_tool(tried: Server, open_console: OpenConsole) -> None:
    """A tool is found, called and read. The page asks before a call that may change something."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    entry = keys.open(page.get_by_role("tabpanel", name="Tools", exact=True), "write_down")
    keys.go_to(entry.locator("[data-name]"))
    keys.write("typed")
    keys.press("Control+Enter")
    question = page.get_by_role("group", name="This tool is not marked as read-only")
    expect(question).to_be_focused()  # not its button, which a held key would press
    keys.press("Escape")
    expect(question).to_have_count(0)
    keys.press("Control+Enter", "Tab")
    expect(page.get_by_role("button", name="Yes, call it")).to_be_focused()
    keys.press("Enter")
    expect(entry.locator(".output .result")).to_contain_text("typed")
    expect(entry.get_by_role("button", name="Call", exact=True)).to_be_focused()
    keys.use(entry.get_by_text("Over the wire"))
    keys.go_to(entry.get_by_label("Requests"))
    keys.go_to(entry.get_by_label("Replies"))
    keys.use(entry.get_by_text("Copy as curl, Python or TypeScript"))
    keys.go_to(entry.get_by_role("tab", name="curl"))
    keys.press("ArrowRight")
    keys.go_to(entry.get_by_role("button", name="Copy", exact=True))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    keys.press("Enter")
    expect(entry.get_by_role("button", name="Copied", exact=True)).to_be_focused()
    assert "asyncio.run(main())" in page.evaluate("navigator.clipboard.readText()")
    keys.go_to(entry.get_by_label("The call in Python"))


def test_the_keyboard_fills_a_form(tried: Server, open_console: OpenConsole) -> None:
    """Items and fields are added and removed, and the focus goes to what is new, or back to the button."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    entry = keys.open(page.get_by_role("tabpanel", name="Tools", exact=True), "every_kind")
    for name, text in (("text", "typed"), ("number", "7")):
        keys.go_to(entry.locator(f'[data-name="{name}"]'))
        keys.write(text)
    keys.go_to(entry.locator('[data-name="colour"]'))
    keys.press("b")
    keys.go_to(entry.locator('[data-name="sure"]'))
    keys.press("ArrowDown")
    add = entry.get_by_role("button", name="Add an item to places")
    keys.use(add)
    expect(entry.locator('[data-name="city"]')).to_be_focused()
    keys.use(entry.get_by_role("button", name="Remove item 1 of places"))
    expect(entry.locator('[data-name="city"]')).to_have_count(0)
    expect(add).to_be_focused()
    keys.press("Enter")
    keys.write("Paris")
    keys.use(entry.get_by_role("button", name="Add inside"))
    expect(entry.locator('[data-name="city"]').nth(1)).to_be_focused()
    keys.use(entry.get_by_role("button", name="Remove inside"))
    expect(entry.get_by_role("button", name="Add inside")).to_be_focused()
    keys.use(entry.get_by_role("button", name="Add shape"))
    expect(entry.locator('select[data-name="shape"]')).to_be_focused()
    keys.press("ArrowDown")
    keys.go_to(entry.locator('[data-name="side"]'))
    keys.write("2.5")
    keys.press("Control+Enter")
    expect(entry.locator(".result")).to_contain_text('"side": 2.5')
    for shown in ('"colour": "blue"', '"sure": true', '"city": "Paris"', '"number": 7'):
        expect(entry.get_by_label("Structured content")).to_contain_text(shown)
    keys.go_to(entry.get_by_role("tab", name="Form"), "Shift+Tab")
    keys.press("ArrowRight", "Tab")
    expect(entry.get_by_label("Arguments as JSON")).to_be_focused()
    keys.write("{}")
    keys.press("Control+Enter")
    expect(entry.locator(".result.failed")).to_be_visible()


def test_the_keyboard_cancels_a_call(tried: Server, open_console: OpenConsole) -> None:
    """*Cancel* comes after the button of the call, which then has the focus again."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    entry = keys.open(page.get_by_role("tabpanel", name="Tools", exact=True), "report_and_wait")
    keys.go_to(entry.locator('[data-name="key"]'))
    keys.write("- of the keyboard")
    keys.press("Control+Enter", "Tab", "Enter")
    expect(entry.locator(".log li")).to_be_visible()
    expect(entry.get_by_role("button", name="Call", exact=True)).to_be_focused()
    keys.press("Tab")
    expect(entry.get_by_role("button", name="Cancel")).to_be_focused()
    keys.press("Enter")
    expect(entry.locator(".result")).to_contain_text("You have cancelled the call.")
    expect(entry.get_by_role("button", name="Call", exact=True)).to_be_focused()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_keyboard_answers_a_question(tried: Server, open_console: OpenConsole, version: str) -> None:
    """A question has the focus when it comes. It is answered or declined, and its address can be opened."""
    console = open_console(tried.url)
    console.speak(version)
    keys = Keyboard(console.page)
    tools = console.page.get_by_role("tabpanel", name="Tools", exact=True)
    entry = keys.open(tools, "test_input_required_result_elicitation")
    keys.use(entry.get_by_role("button", name="Call", exact=True))
    keys.press("Tab", "Enter")
    expect(entry.get_by_role("heading", name="The tool asks")).to_be_focused()
    keys.go_to(entry.locator(".question [data-name]"))
    keys.write("Ada")
    keys.use(entry.get_by_role("button", name="Send the answer"))
    expect(entry.locator(".result")).to_contain_text("Hello, Ada!")
    expect(entry.get_by_role("button", name="Call", exact=True)).to_be_focused()
    keys.tab("Tools")
    entry = keys.open(tools, "open_address")
    keys.go_to(entry.locator('[data-name="url"]'))
    keys.write(f"{tried.url}/healthz")
    keys.press("Control+Enter")
    expect(entry.get_by_role("heading", name="The tool asks")).to_be_focused()
    keys.go_to(entry.get_by_role("link"))
    with console.page.expect_popup() as opened:
        keys.press("Enter")
    opened.value.close()
    keys.use(entry.get_by_role("button", name="Decline"))
    expect(entry.locator(".result")).to_contain_text("The user chose decline.")


def test_the_keyboard_reads_resources_and_gets_prompts(tried: Server, open_console: OpenConsole) -> None:
    """Resources, their templates, and prompts have the same keys. A link to a resource leads to its entry."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    entry = keys.open(keys.tab("Resources"), "test://static-text")
    keys.use(entry.get_by_role("button", name="Read"))
    expect(entry.locator(".result")).to_contain_text("This is the content of the static text resource.")
    keys.go_to(entry.get_by_label("Resource test://static-text"))
    entry = keys.open(keys.tab("Resources"), "test://template/{id}/data")
    keys.go_to(entry.locator('[data-name="id"]'))
    keys.write("red-1")
    keys.press("Control+Enter")
    expect(entry.locator(".result")).to_contain_text("Data for ID: red-1")
    entry = keys.open(keys.tab("Prompts"), "test_prompt_with_arguments")
    for name in ("arg1", "arg2"):
        keys.go_to(entry.locator(f'[data-name="{name}"]'))
        keys.write(f"the {name}")
    keys.use(entry.get_by_role("button", name="Get the prompt"))
    expect(entry.locator(".result")).to_contain_text("arg1='the arg1', arg2='the arg2'")
    entry = keys.open(keys.tab("Tools"), "links")
    keys.use(entry.get_by_role("button", name="Call", exact=True))
    expect(entry.locator(".result")).to_be_visible()
    keys.use(entry.get_by_role("button", name="Read about"))
    expect(page.locator('details.entry[data-entry="template://about"] > summary')).to_be_focused()


def test_the_keyboard_starts_jobs_and_sends_calls(tried: Server, open_console: OpenConsole) -> None:
    """A job is started, followed and cancelled. Many calls are sent and stopped. The tables can be scrolled."""
    page = open_console(tried.url).page
    keys = Keyboard(page)
    panel = keys.tab("Jobs")
    entry = keys.open(panel, "count_slowly")
    keys.use(entry.get_by_role("button", name="Start the job"))
    keys.press("Tab", "Enter")  # yes
    expect(entry.get_by_role("button", name="Start the job")).to_be_focused()
    row = panel.get_by_role("row", name="count_slowly").first
    expect(row).to_contain_text("step ", timeout=60_000)
    keys.go_to(panel.get_by_role("region", name="Your jobs, newest first"))
    keys.go_to(row.get_by_role("button", name="Cancel count_slowly"))
    shown = row.inner_text()
    expect(row).not_to_have_text(shown, use_inner_text=True, timeout=20_000)  # the page draws it again
    expect(row.get_by_role("button", name="Cancel count_slowly")).to_be_focused()
    keys.press("Enter")
    expect(row).to_contain_text("cancelled", timeout=20_000)
    expect(row.get_by_role("button", name="Result of count_slowly")).to_be_focused()
    panel = keys.tab("Swarm")
    keys.go_to(panel.get_by_role("region", name="Known replicas"))
    keys.go_to(panel.get_by_label("What to send"))
    keys.choose(panel.get_by_label("What to send"), "Call pause")
    keys.go_to(panel.get_by_label("How often"))
    keys.write("200")
    keys.use(panel.get_by_role("button", name="Send 200 calls"))
    expect(panel.locator("svg circle").nth(5)).to_be_attached()
    expect(panel.get_by_role("button", name="Stop")).to_be_focused()
    keys.press("Enter")
    expect(panel.get_by_role("button", name="Send 200 calls")).to_be_focused()
    expect(panel.get_by_text(" calls answered by")).to_be_visible()
    keys.go_to(panel.get_by_role("region", name="Calls by replica"))


def test_the_keyboard_enters_a_key(guarded: Server, open_console: OpenConsole) -> None:
    """The field of the key has the focus. Enter sends it, and the first tab has the focus then."""
    page = open_console(guarded.url).page
    keys = Keyboard(page)
    expect(page.get_by_label("Key or token")).to_be_focused()
    keys.write("no key of this server")
    keys.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="no spaces")).to_be_visible()
    keys.write("wrong-key")
    keys.press("Tab", "Enter")
    expect(page.get_by_role("alert").filter(has_text="token")).to_be_visible()
    expect(page.get_by_label("Key or token")).to_be_focused()
    keys.write(KEY)
    keys.press("Enter")
    expect(page.get_by_role("tab", name="Tools")).to_be_focused()
