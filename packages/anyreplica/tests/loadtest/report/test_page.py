"""Tests of the HTML report."""

import re
import subprocess
from pathlib import Path

import pytest

from anyreplica.load.latency import Samples
from anyreplica.load.report.output import as_json
from anyreplica.load.report.page import render
from anyreplica.load.summary import Summary
from tests.loadtest.test_summary import SUMMARY, samples, summary


def page(run: Summary) -> str:
    """Return the HTML report of a run."""
    return render(run, as_json(run, ["p99<1ms: p99 is 30.0 ms"], "test_swarm_load.py", "2026-11-21T12:00:00+00:00"))


def test_the_page_shows_all_and_loads_nothing() -> None:
    """The page shows all results, escapes the server's text, has no script, loads nothing, and forbids both."""
    assert not re.search(r"<(script|link|img|iframe)\b", page(SUMMARY), re.IGNORECASE)
    assert not re.search(r"<[^>]*\b(src|href|onclick|onload)\s*=", page(SUMMARY), re.IGNORECASE)
    assert "url(" not in page(SUMMARY)
    assert "default-src 'none'" in page(SUMMARY)
    text = page(SUMMARY)
    seen = "✗ Failed", "2 of 10 requests failed", "p99&lt;1ms: p99 is 30.0 ms", "draining", "HTTP 503", ">a<", ">b<"
    for words in seen:
        assert words in text
    some = samples()
    some.examples["HTTP 503"] = "<script>alert(1)</script>"
    some.add(1.0, 1.1, "", "<b>replica</b>", "tools/call <i>", 5)
    text = page(summary(some))
    assert not [tag for tag in ("<script>", "<b>replica", "<i>") if tag in text]


@pytest.mark.parametrize("run", [SUMMARY, summary(Samples())])
def test_all_points_are_within_the_drawing(run: Summary) -> None:
    """All points of the curves are within the drawing."""
    for points in re.findall(r'points="([^"]*)"', page(run)):
        for point in points.split():
            x, y = map(float, point.split(","))
            assert -0.1 <= x <= 1000.1
            assert -0.1 <= y <= 300.1


@pytest.mark.servers
@pytest.mark.needs("browser")
@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_shows_it(width: int, tmp_path: Path) -> None:
    """In a browser, no part of the page is wider than the window."""
    probe = "<script>document.title = document.documentElement.scrollWidth + ' ' + document.images.length</script>"
    text = re.sub(r"<meta http-equiv[^>]*>", "", page(SUMMARY)).replace("</body>", f"{probe}</body>")
    file = tmp_path / "page.html"
    file.write_text(text)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    shown = subprocess.run(
        ["chromium", *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = re.search(r"<title>(\d+) 0</title>", shown)
    assert found
    assert int(found[1]) <= max(width, 500)  # Chromium's windows are at least 500 pixels wide
