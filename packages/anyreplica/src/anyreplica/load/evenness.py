"""A measure for how evenly the replicas shared the requests, and its lower limit for a fair balancer."""

from collections.abc import Sequence
from statistics import NormalDist

_CHANCE = 0.9999
"""Share of the runs with a fair random balancer that stay above the tolerance: 1 run in 10,000 is a false alarm."""


def evenness(counts: Sequence[int]) -> float:
    """Return Jain's fairness index: 1 if all counts are equal, 1/n if one of n has everything.

    Source: Jain, Chiu, Hawe 1984.
    """
    total, squares = sum(counts), sum(count * count for count in counts)
    return total * total / (len(counts) * squares) if squares else 0.0


def tolerance(replicas: int, choices: int) -> float:
    """Return the lowest evenness to expect from a balancer that chooses a replica at random for each connection.

    The counts of such a balancer are multinomial. So Pearson's statistic X² has a χ² distribution with replicas - 1
    degrees of freedom, and the index is 1 / (1 + X² / choices). Stricter balancers (round robin) stay far above.

    Args:
        replicas: Number of replicas.
        choices: Number of choices that the balancer made: the number of connections if it balances connections.
    """
    if replicas < 2 or not choices:
        return 0.0
    return 1 / (1 + _chi_square(replicas - 1) / choices)


def _chi_square(freedom: int) -> float:
    """Return the quantile of χ² by Wilson and Hilferty's approximation (1931); its error here is about 1 %."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + NormalDist().inv_cdf(_CHANCE) * part**0.5) ** 3)
