"""The load test compared with wrk."""

import pytest

from benchmarks.generators import CASES, _targets
from benchmarks.rounds import Rounds
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


@pytest.mark.parametrize(("rate", "missed"), [(109, False), (111, True), (89, True)])
def test_the_difference_is_by_round(rate: float, missed: bool) -> None:
    """The difference is computed within each round, so a machine that is faster in one round does not change it."""
    rounds = Rounds(CASES)
    rounds.values["echo-wrk"]["rate"] = [100, 200]
    rounds.values["echo-load_test"]["rate"] = [rate, 2 * rate]
    table = _targets(rounds)
    assert medians(table, "echo-rate")["figure"] == pytest.approx(abs(rate - 100))
    assert bool(table.missed) is missed


@pytest.mark.needs("wrk")
def test_it_runs() -> None:
    """Both generators report figures for both tools."""
    study = measured("generators")
    for case in CASES:
        figures = medians(study.table("generators"), case.name)
        assert 0 < figures["p50"] <= figures["p99"] < 10_000
        assert figures["rate"] > 0
        assert 0 < figures["cpu"] < 10_000
    assert len(study.table("targets").rows) == 5
