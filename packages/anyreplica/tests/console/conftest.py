"""Replicas whose console a browser opens."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from anyreplica.features.keys.key import hash_of
from conftest import Server, until

PACKS = ("asking", "waiting", "tried", "shown")
COMPONENTS = ",".join(("server", "tests.conformance.pack", *(f"tests.packs.{each}" for each in PACKS)))
VERSIONS = ["2026-07-28 (stateless)", "2025-11-25 (handshake)"]
TABS = ("Tools", "Resources", "Prompts", "Jobs", "Swarm", "Connect")
KEY = "the-key-of-the-console-in-this-test"
LIMITED_KEY = "the-key-of-a-caller-with-a-few-tools"


@pytest.fixture(scope="session")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three local replicas with a Redis, sessions, jobs, and tools of every kind."""
    log = tmp_path_factory.mktemp("console") / "log"
    settings = {"MCP_COMPONENTS": COMPONENTS, "HANDSHAKE_SESSIONS": "full"}
    with Server(log, "--replicas", "3", **settings) as server:
        until(lambda: "Ctrl-C stops the replicas" in server.output, "all replicas are ready")
        yield server


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that wants a key. One key may use everything that needs no scope, the other one two tools."""
    folder = tmp_path_factory.mktemp("guarded")
    keys: list[dict[str, object]] = [
        {"id": "all", "hash": hash_of(KEY)},
        {"id": "limited", "hash": hash_of(LIMITED_KEY), "tools": ["sales_*"]},
    ]
    (folder / "keys").write_text("".join(f"{json.dumps(each)}\n" for each in keys))
    settings = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(folder / "keys")}
    with Server(folder / "log", MCP_COMPONENTS="server,tests.packs.scoped", **settings) as server:
        yield server


class Console:
    """The console in a browser. `problems` are errors of the page and violations of its Content-Security-Policy."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems = list[str]()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.goto(f"{url}/")

    def _note(self, kind: str, text: str) -> None:
        # The browser writes a line for each reply with an error status.
        if kind == "error" and "Failed to load resource" not in text:
            self.problems.append(text)

    def tab(self, title: str) -> Locator:
        """Show a tab of the page, and return its panel."""
        self.page.get_by_role("tab", name=title, exact=True).click()
        return self.page.get_by_role("tabpanel", name=title, exact=True)

    def speak(self, version: str) -> None:
        """Choose the protocol version."""
        self.page.get_by_label("Protocol version").select_option(label=version)

    def send_calls(self) -> Locator:
        """Send 300 calls in the tab *Swarm*, wait for their replies, and return the panel of the tab."""
        self.tab("Swarm")
        self.page.get_by_role("button", name="Send 300 calls").click()
        panel = self.page.get_by_role("tabpanel", name="Swarm")
        expect(panel.get_by_text("300 calls answered by")).to_be_visible(timeout=60_000)
        return panel

    def open(self, name: str) -> "Entry":
        """Open the entry of a component. It must be in one tab only, as all but jobs are."""
        return self.open_in(self.page.locator("main"), name)

    def open_in(self, panel: Locator, name: str) -> "Entry":
        """Open an entry in the panel of a tab."""
        entry = Entry(panel.locator(f'details.entry[data-entry="{name}"]'))
        entry.element.locator("summary").first.click()
        return entry


class Entry:
    """The open entry of a component."""

    def __init__(self, element: Locator) -> None:
        self.element = element

    def fill(self, label: str, value: str) -> None:
        """Write a value into the first field with this name."""
        self.element.locator(f'[data-name="{label}"]').first.fill(value)

    def choose(self, label: str, title: str) -> None:
        """Choose a value in the first list with this name."""
        self.element.locator(f'select[data-name="{label}"]').first.select_option(label=title)

    def press(self, name: str) -> None:
        """Press a button."""
        self.element.get_by_role("button", name=name, exact=True).click()

    def result(self) -> str:
        """Wait for the result of a call, and return its text."""
        found = self.element.locator(".output .result")
        found.wait_for(timeout=60_000)
        return found.inner_text()

    def call(self, verb: str = "Call") -> str:
        """Call the component, confirm the call if the page asks, and return the text of its result."""
        self.press(verb)
        yes = self.element.get_by_role("button", name="Yes, call it")
        if yes.is_visible():
            yes.click()
        return self.result()


OpenConsole = Callable[..., Console]


@pytest.fixture
def open_console(chromium: Browser, tmp_path: Path) -> Iterator[OpenConsole]:
    """Return a function that opens the console of a server. The page must end without errors of its own."""
    opened = list[Console]()

    def start(url: str, width: int = 1280, scheme: str = "light") -> Console:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        opened.append(Console(context.new_page(), url))
        return opened[-1]

    yield start
    for console in opened:
        console.page.context.close()
        assert console.problems == []
