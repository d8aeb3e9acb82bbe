"""What samples add up to, and when a target is met."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.machine import choose_cores
from benchmarks.results import Figure, LoadFigures, ScenarioFigures
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO, SCENARIOS, choose
from benchmarks.spread import Spread


def _sample(cpu_seconds: float, *, errors: int = 0) -> Sample:
    return Sample(
        requests=1_000,
        errors=errors,
        first_error="",
        seconds=2,
        cpu_seconds=cpu_seconds,
        p50_ms=1,
        p99_ms=2,
    )


def _figures(*cpu_seconds: float) -> LoadFigures:
    return LoadFigures.of(32, [_sample(figure) for figure in cpu_seconds], [_sample(1)] * len(cpu_seconds))


def test_a_sample() -> None:
    """Microseconds per request, requests per second, exact percentiles in milliseconds."""
    times = [milliseconds * 1_000_000 for milliseconds in range(100, 0, -1)]
    sample = Sample.of(times, errors=0, first_error="", seconds=4, cpu_seconds=0.01)
    assert (sample.requests, sample.p50_ms, sample.p99_ms) == (100, 50, 99)
    assert sample.cpu_us == pytest.approx(100)
    assert sample.per_second == 25
    assert sample.busy == pytest.approx(0.0025)


def test_a_spread() -> None:
    """Of an even number of values the median lies between two."""
    assert Spread.of([4, 1, 3, 2]) == Spread(2.5, 1, 4)
    assert Spread.of([7]) == Spread(7, 7, 7)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_a_spread_is_ordered(values: list[float]) -> None:
    """Whatever the values, and however they are rounded."""
    spread = Spread.of(values)
    assert spread.min <= spread.median <= spread.max
    assert spread.median == pytest.approx(sorted(values)[len(values) // 2], rel=1e-5) or len(values) % 2 == 0


def test_a_ratio_is_of_the_same_round() -> None:
    """A machine that is slow in one round is slow for the floor, too."""
    samples = [_sample(2), _sample(8), _sample(3)]
    floor = [_sample(1), _sample(4), _sample(2)]
    figures = LoadFigures.of(32, samples, floor)
    assert figures.ratio == Spread(2, 1.5, 2)
    assert figures.cpu_us == Spread(3_000, 2_000, 8_000)
    assert (figures.requests, figures.per_second) == (3_000, Spread(500, 500, 500))


@pytest.mark.parametrize(("ratio", "met"), [(1.2, True), (1.3, True), (1.31, False)])
def test_a_target_is_met_by_the_median(ratio: float, met: bool) -> None:
    """One slow round misses nothing."""
    figures = ScenarioFigures.of(ECHO, "", [50, 51], [_figures(ratio, 9, 0.5)])
    assert figures.met is met


def test_a_failure_meets_no_target() -> None:
    """However fast the wrong replies were."""
    assert ScenarioFigures.of(ECHO, "wrong reply", [50, 51], [_figures(1)]).met is False
    failed = ScenarioFigures.of(ECHO, "did not start", [], [])
    assert (failed.met, failed.rss_before_mb) == (None, None)


def test_a_figure_of_the_process() -> None:
    """At most the target; nothing measured is nothing met."""
    assert Figure.of("start-up", "", "s", [0.9, 1.0, 7], 1.0, "").met is True
    assert Figure.of("start-up", "", "s", [1.1], 1.0, "").met is False
    assert Figure.of("start-up", "", "s", [], 1.0, "did not start").met is None


def test_choosing() -> None:
    """By name or pattern, in the order of the report; without any, all."""
    scenarios, whole = choose(["memory", "list*", "echo"])
    assert ([scenario.name for scenario in scenarios], whole) == (["echo", "list", "list-2026"], {"memory"})
    assert choose([]) == (list(SCENARIOS), {"start-up", "memory"})
    with pytest.raises(ValueError, match="'nothing' is none of echo, "):
        choose(["echo", "nothing"])


@pytest.mark.parametrize(
    ("cores", "siblings", "chosen"),
    [
        ([0, 1], {1}, (1, 0)),
        ([0, 1], {0, 1}, (1, 0)),
        ([2, 3, 4, 5], {2, 5}, (5, 3)),
        ([6], {6}, (6, 6)),
    ],
)
def test_cores(cores: list[int], siblings: set[int], chosen: tuple[int, int]) -> None:
    """Not two threads of one core, where there is a choice."""
    assert choose_cores(cores, lambda _: siblings) == chosen
