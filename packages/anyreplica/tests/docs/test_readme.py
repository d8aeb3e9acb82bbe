"""Tests of README, the pages in .github, and the pages about architecture and security: what they name exists."""

import re

import pytest
from pydantic import SecretStr

from anyreplica import Settings
from conftest import ROOT, SOURCE

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "least"), [("README.md", 21), (".github/CONTRIBUTING.md", 1), (".github/SECURITY.md", 1)]
)
def test_every_file_that_a_page_links_to_exists(name: str, least: int) -> None:
    """Each relative link leads to a file of the repository."""
    page = ROOT / name
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", page.read_text())
    assert len(links) >= least
    for target in links:
        assert (page.parent / target).exists(), target


def test_every_path_of_the_layout_exists() -> None:
    """README has at most 200 lines and names existing paths; the page on architecture names every folder."""
    assert len(README.splitlines()) <= 200
    (layout,) = re.findall(r"^```text\n(server/.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in layout.splitlines():
        for name in re.split(r"  +", line)[0].split():
            assert (ROOT / name).exists(), name
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    for folder in (ROOT / "server", SOURCE):
        for path in folder.iterdir():
            if path.is_dir() and not path.name.startswith("_"):
                assert f"{path.name}/" in page, path


def test_a_project_comes_before_the_clone() -> None:
    """README shows the ways in this order: a server that exists, a new project, and the clone to try things out."""
    choices = re.findall(r"^- \*\*(.+?)\.?\*\* .*?\]\(([^)]+)\)", README, re.MULTILINE)
    assert choices == [
        ("You have a FastMCP server", "docs/guides/fastmcp-server.md"),
        ("You start a new server", "#a-project-of-your-own"),
        ("You want to try it", "#two-commands"),
    ]
    assert re.findall(r"^## (.+)", README, re.MULTILINE)[:2] == ["A project of your own", "Two commands"]
    first = README.partition("```bash\n")[2].partition("```")[0]
    assert first.startswith("pipx run copier copy ")


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


def test_every_test_that_security_names_exists() -> None:
    """Each file and function in its tables exists; a name without a folder is in the folder of the one before."""
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
