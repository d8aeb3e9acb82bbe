"""The page of a study."""

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.study.page import render
from benchmarks.study.study import Study
from tests.benchmarks.study.example import PLAIN, STUDY


class _Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.mark.parametrize("study", [STUDY, PLAIN])
def test_it_needs_nothing_else(study: Study) -> None:
    """No file, no network; a script only where there is something to work out, and then only that one."""
    page = render(study)
    for tag, attributes in _Elements(page).seen:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attributes
    assert "default-src 'none'" in page
    assert ("script-src" in page) == (study.findings.model is not None)


def test_it_tells_all() -> None:
    """Escaped: what was measured, what wasn't and why, and how it was run."""
    page = render(STUDY)
    for expected in (
        "<h1>An example</h1>",
        "HTTP is quick. So use it.",
        "stdio, &lt;a process&gt;",
        "19.6 (18–22)",
        "granian is not installed",
        "wrong reply: HTTP 500 &lt;b&gt;",
        "✗ a target",
        "uvicorn 0.54",
        "Memory",
        "A note.",
    ):
        assert expected in page
    assert all(len(points.split()) <= 2 for points in re.findall(r'points="([^"]*)"', page))


@pytest.mark.needs("browser")
def test_a_reader_can_change_an_assumption(tmp_path: Path) -> None:
    """In a real browser: what follows from it changes; the page's own script is the only one that may run."""
    change = "const i = document.getElementById('agents'); i.value = '90000'; i.dispatchEvent(new Event('input'));"
    page = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", render(STUDY))
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", f"<script>{change}</script></body>"))
    shown = _in_browser(file, tmp_path)
    assert re.search(r'<output data-name="replicas">20</output>', shown)
    assert re.search(r'<output data-name="spare">19</output>', shown)
    file.write_text(render(STUDY).replace("</body>", f"<script>{change}</script></body>"))
    assert re.search(r'<output data-name="replicas">2,223</output>', _in_browser(file, tmp_path))


def _in_browser(file: Path, folder: Path) -> str:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{file}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
