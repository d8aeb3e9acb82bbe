"""What counting costs, as a person asks for it."""

import pytest

from benchmarks.metrics import SCRIPT
from benchmarks.study.command import main
from benchmarks.study.study import read


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """One figure, some microseconds at most."""
    assert main(SCRIPT, ["--calls", "2000", "--rounds", "3", "--json", "-"]) == 0
    study = read(capsys.readouterr().out)
    cost = study.findings.tables[0].rows[0].figures["cpu"]
    assert -10 < cost.min <= cost.median <= cost.max < 100
