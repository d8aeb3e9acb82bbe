"""How evenly replicas shared the work, and how uneven chance alone makes it."""

from collections.abc import Sequence
from statistics import NormalDist

_CHANCE = 0.9999
"""Share of fair random balancers that do better than the tolerance: one in 10,000 runs is called uneven for nothing."""


def evenness(counts: Sequence[int]) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one of n does everything (Jain, Chiu, Hawe 1984)."""
    total, squares = sum(counts), sum(count * count for count in counts)
    return total * total / (len(counts) * squares) if squares else 0.0


def tolerance(replicas: int, choices: int) -> float:
    """The lowest evenness that a balancer reaches which sends each connection to a replica by fair dice.

    The chosen counts are multinomial, so that Pearson's statistic X² is distributed like χ² with replicas - 1 degrees
    of freedom, and the index is 1 / (1 + X² / choices). Stricter balancers (round robin) stay far above.

    Args:
        choices: how often the balancer chose: connections, where it balances these.
    """
    if replicas < 2 or not choices:
        return 0.0
    return 1 / (1 + _chi_square(replicas - 1) / choices)


def _chi_square(freedom: int) -> float:
    """The quantile of χ², by Wilson and Hilferty's approximation (1931), which is good to a percent here."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + NormalDist().inv_cdf(_CHANCE) * part**0.5) ** 3)
