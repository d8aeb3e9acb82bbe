"""The count of instructions: its record, its limits, and one run."""

from pathlib import Path

import pytest

from benchmarks.command import main
from benchmarks.instructions import record
from benchmarks.instructions.__main__ import SCRIPT


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty record."""
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    return record.FILE


def test_the_newest_figure_of_each_scenario_counts(file: Path) -> None:
    """An entry may have some scenarios only: the others keep their older figures."""
    record.add("first", {"echo": 100, "awaiting": 150})
    record.add("a faster | echo", {"echo": 90})
    assert record.recorded() == {"echo": 90, "awaiting": 150}
    date = record.read()[0].date
    assert record.markdown().splitlines() == [
        "| date | why | echo | awaiting |",
        "| --- | --- | ---: | ---: |",
        f"| {date} | first | 100 | 150 |",
        f"| {date} | a faster / echo | 90 | – |",
    ]


def test_figures_of_another_python_do_not_count(file: Path) -> None:
    """Another build of Python needs another number of instructions for the same code."""
    record.add("first", {"echo": 100})
    file.write_text(file.read_text().replace('"python": "3', '"python": "2'))
    assert record.recorded() == {}


@pytest.mark.needs("valgrind")
@pytest.mark.system
@pytest.mark.usefixtures("file")
def test_a_call_that_costs_more_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """One run records the figures. If the record has a smaller one, the next run fails and names the scenario."""
    record.add("a wrong figure", {"echo": 1000})
    assert main(SCRIPT, ["--only", "echo", "--check"]) == 1
    out = capsys.readouterr().out
    assert "echo, handshake protocol" in out
    assert "✗ 1020" in out
    assert main(SCRIPT, ["--only", "echo", "--check", "--record", "the right figure"]) == 0
    found = record.recorded()
    assert 100_000 < found["floor"] < found["echo"] < 1_000_000
