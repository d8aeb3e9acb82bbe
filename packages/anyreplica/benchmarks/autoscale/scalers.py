"""The ways to choose the number of replicas that the simulation compares."""

import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from anyreplica.autoscale.policy import Figure, Policy, Scaler

MINIMUM, MAXIMUM = 2, 60
TARGET = 0.9
"""Share of what a replica serves well that the autoscaler aims at."""


class Choice(Protocol):
    """A way to choose the number of replicas."""

    name: str
    title: str
    seconds: int
    """Time between two decisions, in seconds."""

    def begin(self, loads: Sequence[float]) -> int:
        """Return the number of replicas at the start. `loads` is the whole course."""

    def decide(self, now: int, replicas: int, ready: int, load: float) -> int:
        """Return the new number of replicas. `load` is that of one ready replica."""


class Autoscaler:
    """The autoscaler of this project, which asks the replicas every five seconds."""

    name, title, seconds = "autoscale", "anyreplica's autoscaler", 5

    def begin(self, loads: Sequence[float]) -> int:
        """Begin with the replicas that the first second needs."""
        self._scaler = Scaler()
        self._policy = Policy(MINIMUM, MAXIMUM, TARGET)
        return _needed(loads[0] / TARGET)

    def decide(self, now: int, replicas: int, ready: int, load: float) -> int:
        """Decide as the autoscaler does. A replica that starts gives no figure."""
        figures = [load / TARGET] * ready + [None] * (replicas - ready)
        return self._scaler.decide(self._policy, now, replicas, [Figure("calls in flight", figures)]).replicas


class ByCpu:
    """The widespread autoscaler for Swarm: above 85 % of a core, averaged over 5 minutes, it adds one replica.

    Below 25 % it removes one. It looks once a minute.
    """

    name, title, seconds = "cpu", "one more above 85 % CPU, one less below 25 %", 60

    def begin(self, loads: Sequence[float]) -> int:
        """Begin with the replicas that the first second needs."""
        self._seen = deque[float](maxlen=5)
        return _needed(loads[0] / 0.85)

    def decide(self, now: int, replicas: int, ready: int, load: float) -> int:  # noqa: ARG002
        """Decide by the average of the last five minutes."""
        self._seen.append(min(load, 1.0))
        average = sum(self._seen) / len(self._seen)
        return min(MAXIMUM, max(MINIMUM, replicas + (average > 0.85) - (average < 0.25)))


class Fixed:
    """A fixed number of replicas, enough for the highest load."""

    name, title, seconds = "fixed", "a fixed number for the highest load", 3600

    def begin(self, loads: Sequence[float]) -> int:
        """Return the number that the highest load needs."""
        return _needed(max(loads))

    def decide(self, now: int, replicas: int, ready: int, load: float) -> int:  # noqa: ARG002
        """Change nothing."""
        return replicas


def optimum_hours(loads: Sequence[float]) -> float:
    """Return the replica hours of an ideal autoscaler, which knows the load in advance.

    In each second, it has as few replicas as serve the load well.
    """
    return sum(map(_needed, loads)) / 3600


def _needed(load: float) -> int:
    return max(MINIMUM, math.ceil(load))
