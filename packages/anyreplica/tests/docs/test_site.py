"""The site that Zensical builds from docs/."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from anyreplica import Settings
from conftest import PACKAGE, ROOT, environment

pytestmark = pytest.mark.system

DOCS = ROOT / "docs"
CONFIGURATION = DOCS / "zensical.toml"


@pytest.mark.servers
def test_the_site_is_built_without_a_warning() -> None:
    """Every link of a page leads to a page and an anchor that exist. The site does not have its configuration."""
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(CONFIGURATION)],
        cwd=ROOT,
        env=environment(NO_COLOR="1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    site = DOCS / "build" / "site"
    assert (site / "index.html").exists()
    assert not (site / CONFIGURATION.name).exists()


def test_every_page_is_in_the_navigation() -> None:
    """The navigation names every page once."""

    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for each in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            yield from pages(each)

    named = list(pages(tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]))
    assert sorted(named) == sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md"))


@pytest.mark.servers
def test_generated_pages_are_up_to_date() -> None:
    """The pages of settings, command line and Python API agree with the code."""
    checked = subprocess.run(
        [sys.executable, "-m", "reference", "--check"],
        cwd=PACKAGE,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_settings_page_has_every_setting() -> None:
    """The page of settings has one row for each setting."""
    rows = re.findall(r"^\| `([A-Z_]+)` ", (DOCS / "reference" / "settings.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(name.upper() for name in Settings.model_fields)


def test_no_page_is_thin() -> None:
    """Each page has a title and more than 80 words."""
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        if page.name == "changelog.md":  # includes CHANGELOG.md
            continue
        assert text.startswith("# "), page
        assert len(text.split()) > 80, page
