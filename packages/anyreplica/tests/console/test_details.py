"""Tests of what the console says about tools, jobs and many calls: permissions, who has answered, and how fast."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from conftest import PACKAGE, Server, environment
from tests.console.conftest import OpenConsole

pytestmark = [pytest.mark.servers, pytest.mark.needs("browser")]


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("echo", "It only reads. It may reach other systems."),
        ("remove_all", "It may change or delete something. It may reach other systems."),
        ("add_once", "changes and deletes nothing. A second call with the same arguments changes nothing more."),
        ("add_once", "It reaches no other systems. A caller needs these scopes: notes.write, notes.read."),
    ],
)
def test_the_permissions_of_a_tool_are_shown(tried: Server, open_console: OpenConsole, tool: str, text: str) -> None:
    """A user sees what a tool may do before the first call, also if annotations are missing."""
    entry = open_console(tried.url).open(tool)
    expect(entry.element.locator("p", has_text="Permissions:")).to_contain_text(text)


def _started(open_console: OpenConsole, server: Server) -> Locator:
    """Start a job in the page. Return the entry of the job."""
    console = open_console(server.url)
    console.tab("Jobs")
    job = console.open_in(console.page.get_by_role("tabpanel", name="Jobs"), "export_data")
    job.fill("rows", "3")
    entry = job.element
    entry.get_by_role("button", name="Start the job").click()
    with console.page.expect_response(lambda reply: reply.request.method == "POST") as caught:
        entry.get_by_role("button", name="Yes, start it").click()
    served_by = caught.value.headers["x-served-by"]
    job = caught.value.json()["id"]
    status = entry.get_by_text("Served by replica")
    expect(status).to_have_text(re.compile(rf"Served by replica {re.escape(served_by)} in [\d.]+ ms\. The job {job} "))
    return entry


def test_a_started_job_shows_its_request(tried: Server, open_console: OpenConsole) -> None:
    """The page says who has started the job and in what time. It shows request and reply, and the call as code."""
    entry = _started(open_console, tried)
    entry.get_by_text("Over the wire").click()
    expect(entry.get_by_label("Requests")).to_contain_text('"job": "export_data"')
    expect(entry.get_by_label("Replies")).to_contain_text("HTTP 202")
    expect(entry.get_by_label("Replies")).to_contain_text("X-Served-By: ")
    entry.get_by_text("Copy as curl, Python or TypeScript").click()
    for language, command in (("curl", ["bash", "-c"]), ("Python", [sys.executable, "-c"])):
        entry.get_by_role("tab", name=language).click()
        program = entry.get_by_label(re.compile(rf"The call (with|in) {language}")).inner_text()
        done = subprocess.run(
            [*command, program], capture_output=True, text=True, check=True, timeout=60, env=environment()
        )
        assert "export_data" in done.stdout, language


@pytest.mark.needs("node")
def test_a_job_as_typescript_is_started(tried: Server, open_console: OpenConsole, tmp_path: Path) -> None:
    """The TypeScript program that the page shows runs as it is."""
    entry = _started(open_console, tried)
    entry.get_by_text("Copy as curl, Python or TypeScript").click()
    entry.get_by_role("tab", name="TypeScript").click()
    program = tmp_path / "program.mjs"
    program.write_text(entry.get_by_label("The call in TypeScript").inner_text())
    node = PACKAGE / "tests" / "conformance" / "node_modules" / ".bin" / "node"
    done = subprocess.run([node, program], capture_output=True, text=True, check=True, timeout=60)
    assert "export_data" in done.stdout


def test_many_calls_have_a_distribution(tried: Server, open_console: OpenConsole) -> None:
    """The page groups the calls by their times, and says how fast each replica has answered, as the load test does."""
    panel = open_console(tried.url).send_calls()
    groups = panel.get_by_role("region", name="Distribution of the times").locator("tbody tr").all_inner_texts()
    counts = [re.fullmatch(r"([\d.]+) to ([\d.]+) ms\s+(\d+)\s*", each) for each in groups]
    assert sum(int(each[3]) for each in counts if each) == 300
    limits = [(float(each[1]), float(each[2])) for each in counts if each]
    assert len(limits) == len(groups)
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(limits))
    for row in panel.get_by_role("region", name="Calls by replica").locator("tbody tr").all():
        number, median, most = row.locator("td").all_inner_texts()[:3]
        assert int(number) > 0
        assert 0 < float(median.removesuffix(" ms")) <= float(most.removesuffix(" ms"))
