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
        times = {"p50": p99 / 3 * dice.gauss(1, spread), "p99": p99 * dice.gauss(1, spread)}
        parts.append({"seconds": 0.25, "requests": requests, "failed": 0, **times})
    latency = {"p50": p99 / 3, "p99": p99}
    return {"slices": parts, "requests": 10_000, "failed": failed, "throughput": rate, "latency": latency}


def verdicts(before: Any, after: Any) -> dict[str, str]:
    """Return the verdict on each figure."""
    return {change.name: change.verdict for change in compare(before, after)}


def test_only_a_real_difference_is_no_noise() -> None:
    """Equal runs differ only by noise, for a hundred seeds; more throughput is better, and more latency worse."""
    for seed in range(100):
        assert set(verdicts(run(1000, 20, seed=seed), run(1000, 20, seed=seed + 1000)).values()) == {"noise"}
    expected = {"throughput": "better", "p50": "worse", "p99": "worse", "failed": "noise"}
    assert verdicts(run(1000, 20), run(1300, 30, seed=2)) == expected


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        pytest.param({"spread": 0.5}, {"rate": 1100, "spread": 0.5}, "noise", id="ten percent of unsteady runs"),
        pytest.param({"spread": 0.001}, {"rate": 1010, "spread": 0.001}, "noise", id="one percent, not by chance"),
        pytest.param({"slices": 4}, {"rate": 2000}, "too little data", id="a run that is too short"),
    ],
)
def test_no_verdict_on_the_throughput(before: dict[str, Any], after: dict[str, Any], verdict: str) -> None:
    """A difference within the unsteadiness, a small one, and one of a short run are no change."""
    changes = verdicts(run(**{"rate": 1000, "p99": 20, **before}), run(**{"p99": 20, "seed": 2, **after}))
    assert changes["throughput"] == verdict


@pytest.mark.parametrize(("before", "after", "verdict"), [(0, 50, "worse"), (300, 100, "better"), (5, 7, "noise")])
def test_failures(before: int, after: int, verdict: str) -> None:
    """A large change in the failures of 10,000 requests is better or worse, and a small change is noise."""
    assert verdicts(run(1000, 20, failed=before), run(1000, 20, failed=after))["failed"] == verdict


def test_the_rank_test_knows_the_textbook() -> None:
    """The rank test gives the textbook's values for two separate groups and for two equal groups."""
    assert rank_test(range(10), range(10, 20)) == pytest.approx(0.000157, rel=0.02)
    assert rank_test([1, 2, 3, 4] * 5, [1, 2, 3, 4] * 5) == 1.0
    assert rank_test([5] * 10, [5] * 10) == 1.0
