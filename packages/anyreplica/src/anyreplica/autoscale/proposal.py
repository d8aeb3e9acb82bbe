"""How many replicas one figure asks for.

The rules are those of the Horizontal Pod Autoscaler of Kubernetes ("Algorithm details" in its documentation).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

ABOVE = 0.05
"""If the load is above the target by at most this share, no replica is added. The default of Kubernetes is 0.1. With
0.1, a load that rises slowly overloads the replicas before one is added (`benchmarks.autoscale`, table "sawtooth")."""

BELOW = 0.1
"""If the load is below the target by at most this share, no replica is removed."""

MOST_LOAD = 100.0
"""A larger load counts as this one, so the sum of the loads is always a number."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of all replicas.

    Attributes:
        name: what was measured, for the log.
        loads: the load of each replica as a multiple of the target. None: the replica gave no figure.
    """

    name: str
    loads: Sequence[float | None]

    @property
    def known(self) -> list[float]:
        """The loads that are usable numbers."""
        usable = (each for each in self.loads if each is not None and math.isfinite(each) and each >= 0)
        return [min(each, MOST_LOAD) for each in usable]


def wanted(figure: Figure) -> int | None:
    """Return the number of replicas that a figure asks for; None: no replica gave a usable figure.

    A replica without a figure counts as idle when the others ask for more replicas, and as fully loaded when they ask
    for fewer. So a lost figure never causes a change by itself.
    """
    known, count = figure.known, len(figure.loads)
    if not known:
        return None
    average = sum(known) / len(known)
    if _is_near(average):
        return count
    missing = count - len(known)
    assumed = (sum(known) + (missing if average < 1 else 0)) / count
    if _is_near(assumed) or (assumed > 1) != (average > 1):
        return count
    return max(1, math.ceil(round(assumed * count, 6)))


def _is_near(load: float) -> bool:
    return -BELOW - _ROUNDING <= load - 1 <= ABOVE + _ROUNDING
