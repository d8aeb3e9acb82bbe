"""Tests of the measure for how evenly the replicas shared the requests."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.load.summary import evenness, tolerance


@pytest.mark.parametrize(
    ("counts", "index"), [([10, 10, 10], 1.0), ([30, 0, 0], 1 / 3), ([1, 2, 3], 36 / 42), ([0, 0], 0.0), ([5], 1.0)]
)
def test_jains_index(counts: list[int], index: float) -> None:
    """The index follows the formula of Jain's paper, and one replica or no connection has no tolerance."""
    assert evenness(counts) == pytest.approx(index)
    assert tolerance(1, 100) == tolerance(3, 0) == 0.0


@given(st.lists(st.integers(0, 10**6), min_size=1).filter(any))
def test_the_index_is_between_its_limits(counts: list[int]) -> None:
    """The index of n replicas is between 1/n and 1."""
    assert 1 / len(counts) - 1e-9 <= evenness(counts) <= 1 + 1e-9


@pytest.mark.parametrize(("replicas", "connections"), [(3, 30), (3, 300), (10, 100)])
def test_fair_dice_stay_above_the_tolerance(replicas: int, connections: int) -> None:
    """At most 2 of 2,000 random balancers are below the tolerance, which is close to the 21st of them."""
    dice = random.Random(1)  # noqa: S311
    rounds = (Counter(dice.choices(range(replicas), k=connections)) for _ in range(2000))
    throws = sorted(evenness([counts[number] for number in range(replicas)]) for counts in rounds)
    bound = tolerance(replicas, connections)
    assert throws[2] > bound
    assert throws[20] - bound < 0.35 * (1 - bound) + 0.1
