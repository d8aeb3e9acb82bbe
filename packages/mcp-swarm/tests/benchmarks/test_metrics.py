"""The study of counting."""

import pytest

from benchmarks.command import main
from benchmarks.metrics import SCRIPT
from benchmarks.study import read
from tests.benchmarks.measuring import medians


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Counting costs some microseconds at most."""
    assert main(SCRIPT, ["--quick", "--json", "-"]) == 0
    (table,) = read(capsys.readouterr().out).tables
    assert -10 < medians(table, "counting")["cpu"] < 100
