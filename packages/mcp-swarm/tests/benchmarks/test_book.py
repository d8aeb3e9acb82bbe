"""BENCHMARKS.md."""

import json
from pathlib import Path

import pytest

from benchmarks import book
from tests.benchmarks.study.example import PLAIN

_README = """Fast? <!-- sentence of modes -->Very.<!-- end --> See

<!-- table of modes -->
| old |
<!-- end -->

No place: <!-- a comment -->
"""


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one study."""
    monkeypatch.setattr(book, "FIGURES", tmp_path)
    monkeypatch.setattr(book, "BOOK", tmp_path / "BENCHMARKS.md")
    monkeypatch.setattr(book, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text(_README)
    (tmp_path / "modes.json").write_text(json.dumps(PLAIN.as_json()))
    return tmp_path


def test_a_chapter_for_each_claim(figures: Path) -> None:
    """Its claim and one sentence, the command without its files, one table, when and on what."""
    assert book.main([]) == 0
    text = (figures / "BENCHMARKS.md").read_text()
    assert "## An example\n\nIt shows.\n\n```bash\npython -m benchmarks.example --rounds 3\n```\n\n|  |" in text
    assert "|  | p50, ms | calls, /s |\n| --- | ---: | ---: |\n| stdio, <a process> | 19.6 (18–22) | 51 |" in text
    assert "| HTTP / TCP |" in text
    assert "|\n\nHTTP is quick.\n\n" in text
    assert "2026-11-22, 1 min, 3 rounds; " in text
    assert "uvicorn 0.54." in text


def test_the_figures_in_readme(figures: Path) -> None:
    """A sentence within a line, and a table; the rest stays as it was."""
    assert book.main([]) == 0
    text = (figures / "README.md").read_text()
    assert text.startswith(
        "Fast? <!-- sentence of modes -->HTTP is quick.<!-- end --> See\n\n<!-- table of modes -->\n\n|  |"
    )
    assert text.endswith("|\n\n<!-- end -->\n\nNo place: <!-- a comment -->\n")
    assert "| old |" not in text
    assert book.main(["--check"]) == 0


def test_figures_that_are_missing(figures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which, and what measures them."""
    (figures / "modes.json").unlink()
    assert book.main([]) == 2
    assert capsys.readouterr().err.startswith("README.md wants figures of modes, which are missing; python -m ")


def test_these_pages_are_of_these_figures() -> None:
    """BENCHMARKS.md and README, as they are committed."""
    assert book.main(["--check"]) == 0


def test_a_page_of_other_figures(figures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and what to do."""
    book.main([])
    assert book.main(["--check"]) == 0
    (figures / "BENCHMARKS.md").write_text("faster than all others")
    assert book.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("Not of benchmarks/figures: BENCHMARKS.md; python -m benchmarks.book")
