"""The study of the exchange, with real servers."""

import pytest

from benchmarks.scenarios import SCENARIOS, Scenario
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("scenarios", [SCENARIOS[:9], SCENARIOS[9:]])
def test_every_reply_is_right(scenarios: tuple[Scenario, ...]) -> None:
    """Each scenario gets figures for both loads, as a ratio to the floor."""
    study = measured("exchange", "--seconds", "0.1", "--only", ",".join(scenario.name for scenario in scenarios))
    assert study.failures == []
    for table in (study.table("cost"), study.table("alone")):
        assert [row.name for row in table.rows] == ["floor", *(scenario.name for scenario in scenarios)]
        for row in table.rows:
            figures = medians(table, row.name)
            assert 0 < figures["cpu"] < 100_000
            assert 0 < figures["p50"] <= figures["p99"] < 10_000
            assert figures["rate"] > 0
            assert figures["ratio"] == 1 if row.name == "floor" else figures["ratio"] > 0
    targets = {row.name: row.figures["target"].median for row in study.table("cost").rows if "target" in row.figures}
    assert targets == {scenario.name: scenario.target for scenario in scenarios if scenario.target}


def test_it_runs_for_the_whole_process() -> None:
    """With `--only start-up,memory`, the study has only the figures of a whole process."""
    (table,) = measured("exchange", "--only", "start-up,memory").tables
    assert 0 < medians(table, "start-up")["figure"] < 60
    assert 0 < medians(table, "start-up-check")["figure"] < 60
    assert 0 < medians(table, "start-up-bare")["figure"] < 60
    assert 20 < medians(table, "memory-ready")["figure"] < medians(table, "memory-after")["figure"] + 5 < 500
    assert [row.figures["target"].median for row in table.rows if "target" in row.figures] == [1, 1.5, 100, 100, 2]
