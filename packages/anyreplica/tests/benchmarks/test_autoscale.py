"""The simulation of the autoscaler."""

import pytest

from benchmarks.autoscale.__main__ import SCRIPT
from benchmarks.autoscale.course import START_SECONDS, simulate
from benchmarks.autoscale.curves import CURVES, Curve
from benchmarks.autoscale.pictures import FOLDER, picture
from benchmarks.autoscale.scalers import Autoscaler, Fixed, optimum_hours
from benchmarks.command import main
from benchmarks.study import read


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of one round meets the targets, and has a table for each curve."""
    assert main(SCRIPT, ["--quick", "--check", "--json", "-"]) == 0
    tables = read(capsys.readouterr().out).tables
    assert [table.name for table in tables] == [curve.name for curve in CURVES]
    assert all(len(table.rows) == 4 for table in tables)


def test_a_fixed_number() -> None:
    """A fixed number for the highest load is never overloaded and never changes."""
    outcome = simulate([1.5, 3.2, 2.0] * 1200, Fixed())
    assert (outcome.hours, outcome.overloaded, outcome.changes) == (4.0, 0.0, 0)
    assert optimum_hours([1.5, 3.2, 2.0] * 1200) == pytest.approx((2 + 4 + 2) / 3)


def test_a_new_replica_serves_after_its_start() -> None:
    """After a step, the seconds until the new replicas serve are overloaded."""
    outcome = simulate([2.0] * 600 + [4.0] * 600, Autoscaler())
    assert outcome.overloaded * 1200 == pytest.approx(START_SECONDS, abs=5)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_the_pictures_are_up_to_date(curve: Curve) -> None:
    """The pictures in docs/images show what the code does. `python -m benchmarks.autoscale.pictures` draws them."""
    assert (FOLDER / f"autoscale-{curve.name}.svg").read_text() == picture(curve)
