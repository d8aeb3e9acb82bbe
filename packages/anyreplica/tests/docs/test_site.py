"""The site that Zensical builds from docs/."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from anyreplica import Settings
from conftest import PACKAGE, ROOT, run

pytestmark = pytest.mark.system

DOCS = ROOT / "docs"
CONFIGURATION = DOCS / "zensical.toml"


@pytest.fixture(scope="module")
def site() -> Path:
    """The built site. Its build fails if a link leads to a page or an anchor that does not exist."""
    build = (sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(CONFIGURATION))
    built = run(*build, NO_COLOR="1")
    assert built.returncode == 0, built.stdout + built.stderr
    return DOCS / "build" / "site"


@pytest.mark.servers
def test_the_site_is_built_without_a_warning(site: Path) -> None:
    """Every link of a page leads to a page and an anchor that exist. The site does not have its configuration."""
    assert (site / "index.html").exists()
    assert not (site / CONFIGURATION.name).exists()


_BROKEN_WORDS = r"""() => {
  const found = [];
  for (const cell of document.querySelectorAll("article td, article th, article :not(pre) > code")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      for (const word of text.data.matchAll(/(?:--)?[\p{L}\p{N}]+/gu)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const lines = [...range.getClientRects()].filter((box) => box.width).map((box) => Math.round(box.top));
        if (new Set(lines).size > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
"""Return the words of tables and of code, and the beginnings of options, that go on in the next line."""

_CUT_OFF = """() => [...document.querySelectorAll("article table, article pre")].filter((each) => {
  if (each.getBoundingClientRect().right <= innerWidth) return false;
  for (let around = each; around; around = around.parentElement) {
    const { right } = around.getBoundingClientRect();
    if (/auto|scroll/.test(getComputedStyle(around).overflowX) && right <= innerWidth) return false;
  }
  return true;
}).map((each) => each.innerText)"""
"""Return the tables and the code blocks that are wider than the screen, and that do not scroll inside themselves."""


@pytest.mark.servers
@pytest.mark.needs("browser")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_the_screen(site: Path, chromium: Browser, width: int, scheme: Any) -> None:
    """On a telephone and on a laptop, in light and dark, no page has to be moved sideways to be read.

    A wide table and a wide block of code scroll inside themselves. No word of a table or of code is broken.
    """
    with chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        for file in sorted(site.rglob("*.html")):
            page.goto(file.as_uri(), wait_until="load")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, file
            assert page.evaluate(_CUT_OFF) == [], file
            assert page.evaluate(_BROKEN_WORDS) == [], file


def navigation() -> list[dict[str, Any]]:
    """Return the parts of the navigation."""
    parts: list[dict[str, Any]] = tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]
    return parts


def test_guides_are_in_small_groups() -> None:
    """A group has five to seven guides. The page of the guides has the same groups, with a sentence for each guide."""
    (index, *groups) = next(part["Guides"] for part in navigation() if "Guides" in part)
    page = (DOCS / index).read_text()
    for group in groups:
        ((title, entries),) = group.items()
        assert 5 <= len(entries) <= 7, title
        (section,) = re.findall(rf"^## {title}\n\n((?:- .*\n?)+)", page, re.MULTILINE)
        named = [(name, file) for entry in entries for name, file in entry.items()]
        lines = re.findall(r"^- \[(.+?)\]\((.+?)\): (.+\.)$", section, re.MULTILINE)
        assert [(name, f"guides/{file}") for name, file, _ in lines] == named
        assert all(len(sentence.split()) >= 3 and ". " not in sentence for *_, sentence in lines), title


def test_every_page_is_in_the_navigation() -> None:
    """The navigation names every page once, and each has a title and more than 80 words."""

    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for each in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            yield from pages(each)

    named = list(pages(navigation()))
    assert sorted(named) == sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md"))
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        assert text.startswith("# "), page
        assert len(text.split()) > 80, page


@pytest.mark.servers
def test_generated_pages_are_up_to_date() -> None:
    """The pages of settings, which has one row for each, command line and Python API agree with the code."""
    check = ("env", f"--chdir={PACKAGE}", sys.executable, "-m", "reference", "--check")
    checked = run(*check, PYTHONPATH=str(ROOT))
    assert checked.returncode == 0, checked.stderr
    rows = re.findall(r"^\| `([A-Z_]+)` ", (DOCS / "reference" / "settings.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(name.upper() for name in Settings.model_fields)
