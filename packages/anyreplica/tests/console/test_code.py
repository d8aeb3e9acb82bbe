"""Tests of a call as code: what the console shows runs as it is, and can be copied."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import PACKAGE, Server, environment
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


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


def test_the_code_is_copied_as_it_is_shown(tried: Server, open_console: OpenConsole) -> None:
    """Each button puts the text beside it into the clipboard. A browser without a clipboard says what to do."""
    console = open_console(tried.url)
    console.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    entry = console.open("echo")
    entry.fill("message", 'to be "copied"\nas it is')
    entry.call()
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    for language, label in (("curl", "with curl"), ("Python", "in Python"), ("TypeScript", "in TypeScript")):
        entry.element.get_by_role("tab", name=language, exact=True).click()
        entry.press("Copy")
        panel = entry.element.get_by_role("tabpanel", name=language, exact=True)
        expect(panel.get_by_role("button", name="Copied", exact=True)).to_be_visible()
        shown = entry.element.get_by_label(f"The call {label}").inner_text()
        assert console.page.evaluate("navigator.clipboard.readText()") == shown
        assert "copied" in shown
    entry.call()
    console.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    entry.element.get_by_text("Copy as curl, Python or TypeScript").click()
    entry.press("Copy")
    expect(entry.element.get_by_role("button", name="Select the text to copy it")).to_be_visible()
