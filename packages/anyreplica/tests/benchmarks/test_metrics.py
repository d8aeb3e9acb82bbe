"""The study of counting."""

import pytest

from benchmarks.command import main
from benchmarks.metrics import SCRIPT
from benchmarks.study import read
from tests.benchmarks.measuring import medians


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Counting a call costs less than 100 µs, even by a quick run's rough figures."""
    assert main(SCRIPT, ["--quick", "--json", "-"]) == 0
    (table,) = read(capsys.readouterr().out).tables
    assert -10 < medians(table, "counting")["cpu"] < 100
