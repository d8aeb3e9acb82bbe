"""Tests of README, the pages in .github, and the pages about architecture and security: what they name exists."""

import re

import pytest
from pydantic import SecretStr

from anyreplica import Settings
from conftest import ROOT, SOURCE

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()


def test_it_is_short() -> None:
    """README has at most 200 lines."""
    assert len(README.splitlines()) <= 200


def test_every_file_that_it_links_to_exists() -> None:
    """Each relative link of README leads to a file of the repository."""
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README)
    assert len(links) > 20
    for target in links:
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md"])
def test_every_file_that_a_page_for_github_links_to_exists(name: str) -> None:
    """Each relative link of a page in .github leads to a file of the repository."""
    page = ROOT / ".github" / name
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", page.read_text())
    assert links
    for target in links:
        assert (page.parent / target).exists(), target


def test_every_path_of_the_layout_exists() -> None:
    """The section "Where things are" names only existing paths."""
    (layout,) = re.findall(r"^```text\n(server/.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in layout.splitlines():
        for name in re.split(r"  +", line)[0].split():
            assert (ROOT / name).exists(), name


def test_defaults_are_those_of_the_code() -> None:
    """README's table of settings has the defaults of anyreplica.settings."""
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \| ([^|]*) \|", README, re.MULTILINE)
    known = {name.upper(): field.default for name, field in Settings.model_fields.items()}
    checked = 0
    for names, defaults in rows:
        shown = re.findall(r"`([^`]+)`", defaults)
        for name, value in zip(re.findall(r"`([^`]+)`", names), shown, strict=False):
            if name in known:
                default = known[name]
                plain = default.get_secret_value() if isinstance(default, SecretStr) else default
                plain = ",".join(plain) if isinstance(plain, tuple) else plain
                assert value == (str(plain).lower() if isinstance(plain, bool) else str(plain)), name
                checked += 1
    assert checked >= 8


def test_architecture_names_every_folder() -> None:
    """The page about the architecture names every folder of the template and of the package."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    for folder in (ROOT / "server", SOURCE):
        for path in folder.iterdir():
            if path.is_dir() and not path.name.startswith("_"):
                assert f"{path.name}/" in page, path


def test_every_test_that_security_names_exists() -> None:
    """Each file and each function in the tables of the page about security exists.

    A name without a folder is in the folder of the name before it.
    """
    file, named = ROOT, 0
    for line in (ROOT / "docs" / "explanation" / "security.md").read_text().splitlines():
        if not line.startswith("| "):
            continue
        for name in re.findall(r"`([^`]+)`", line.split("|")[-2]):
            path, _, function = name.partition("::")
            if "/" in path:
                file = ROOT / path
            elif path.endswith(".py"):
                file = file.parent / path
            else:
                function = path
            assert file.exists(), name
            texts = [each.read_text() for each in (file.glob("*.py") if file.is_dir() else [file])]
            assert not function or any(f"def {function}(" in text for text in texts), name
            named += 1
    assert named > 40
