"""BENCHMARKS.md."""

import importlib.util
import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import book
from tests.benchmarks.example import STUDY

_TEXT = "# A page\n\nA claim.\n\n{{ table example calls }}\n\n{{ machine example }}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the text of a page and the figures of one study."""
    monkeypatch.setattr(book, "FIGURES", tmp_path)
    monkeypatch.setattr(book, "TEXT", tmp_path / "book.md")
    monkeypatch.setattr(book, "BOOK", tmp_path / "BENCHMARKS.md")
    (tmp_path / "book.md").write_text(_TEXT)
    (tmp_path / "example.json").write_text(json.dumps(asdict(STUDY)))
    return tmp_path


def test_places_are_filled(folder: Path) -> None:
    """The text stays as it is, with a table and a machine line in the named places."""
    assert book.main([]) == 0
    text = (folder / "BENCHMARKS.md").read_text()
    assert text.startswith("# A page\n\nA claim.\n\n<!-- --8<-- [start:example-calls] -->\n|  | p50, ms | calls, /s |")
    assert "{{" not in text
    assert "\n<sub>2026-11-22, 1 min, 3 rounds; " in text
    assert text.endswith("; uvicorn 0.54.</sub>\n")


def test_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` writes nothing, and returns 1 until BENCHMARKS.md is up to date."""
    assert book.main(["--check"]) == 1
    assert capsys.readouterr().err == "BENCHMARKS.md is not up to date; python -m benchmarks.book writes it\n"
    assert not (folder / "BENCHMARKS.md").exists()
    book.main([])
    assert book.main(["--check"]) == 0


def test_this_page_is_up_to_date() -> None:
    """BENCHMARKS.md has the committed figures."""
    assert book.main(["--check"]) == 0


def test_each_study_has_a_section() -> None:
    """Each section has one command that exists, at least one table, and one machine line, all of the same study.

    The section of the instructions has the record instead, which has the machine of each line.
    """
    _, *sections = book.TEXT.read_text().split("\n## ")
    counted = [section for section in sections if "{{ record instructions }}" in section]
    assert len(counted) == 1
    assert "python -m benchmarks.instructions --check" in counted[0]
    sections.remove(counted[0])
    for name, section in zip(book.STUDIES, sections, strict=True):
        assert re.findall(r"python -m benchmarks\.(\w+)", section) == [name]
        assert importlib.util.find_spec(f"benchmarks.{name}")
        assert set(re.findall(r"\{\{ table (\w+) ", section)) == {name}
        assert re.findall(r"\{\{ machine (\w+) ", section) == [name]
