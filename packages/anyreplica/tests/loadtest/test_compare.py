"""Tests of the comparison of two runs: is a difference more than noise?"""

import random
from typing import Any

import pytest

from anyreplica.load.compare import compare, rank_test

SLICES = 40


def run(rate: float, p99: float, *, failed: int = 0, slices: int = SLICES, seed: int = 1, spread: float = 0.1) -> Any:
    """Return a run of ten seconds as its file has it, with random differences between its slices."""
    dice = random.Random(seed)  # noqa: S311
    parts = []
    for _ in range(slices):
        requests = round(rate * 0.25 * dice.gauss(1, spread))
        parts.append(
            {"seconds": 0.25, "requests": requests, "failed": 0, "p50": p99 / 3 * dice.gauss(1, spread), "p99": p99}
        )
        parts[-1]["p99"] = p99 * dice.gauss(1, spread)
    latency = {"p50": p99 / 3, "p99": p99}
    return {"slices": parts, "requests": 10_000, "failed": failed, "throughput": rate, "latency": latency}


def verdicts(before: Any, after: Any) -> dict[str, str]:
    """Return the verdict on each figure."""
    return {change.name: change.verdict for change in compare(before, after)}


def test_two_equal_runs_differ_only_by_noise() -> None:
    """Two runs of the same kind differ only by noise, for a hundred seeds."""
    for seed in range(100):
        assert set(verdicts(run(1000, 20, seed=seed), run(1000, 20, seed=seed + 1000)).values()) == {"noise"}


def test_a_real_difference_is_reported() -> None:
    """A real difference is reported; a higher throughput is better, and a higher latency is worse."""
    assert verdicts(run(1000, 20), run(1300, 30, seed=2)) == {
        "throughput": "better",
        "p50": "worse",
        "p99": "worse",
        "failed": "noise",
    }


def test_a_difference_within_the_unsteadiness_is_noise() -> None:
    """A difference of ten percent is noise if the slices of a run have a standard deviation of 50 %."""
    assert verdicts(run(1000, 20, spread=0.5), run(1100, 20, seed=2, spread=0.5))["throughput"] == "noise"


def test_a_difference_of_one_percent_is_noise() -> None:
    """A difference of one percent is noise, even if chance cannot explain the difference."""
    assert verdicts(run(1000, 20, spread=0.001), run(1010, 20, seed=2, spread=0.001))["throughput"] == "noise"


@pytest.mark.parametrize(("before", "after", "verdict"), [(0, 50, "worse"), (300, 100, "better"), (5, 7, "noise")])
def test_failures(before: int, after: int, verdict: str) -> None:
    """A large change in the failures of 10,000 requests is better or worse, and a small change is noise."""
    assert verdicts(run(1000, 20, failed=before), run(1000, 20, failed=after))["failed"] == verdict


def test_short_runs_give_no_verdict() -> None:
    """A comparison with a run that is too short has the verdict "too little data"."""
    assert verdicts(run(1000, 20, slices=4), run(2000, 20))["throughput"] == "too little data"


def test_the_rank_test_knows_the_textbook() -> None:
    """The rank test gives the textbook's values for two separate groups and for two equal groups."""
    assert rank_test(range(10), range(10, 20)) == pytest.approx(0.000157, rel=0.02)
    assert rank_test([1, 2, 3, 4] * 5, [1, 2, 3, 4] * 5) == 1.0
    assert rank_test([5] * 10, [5] * 10) == 1.0
