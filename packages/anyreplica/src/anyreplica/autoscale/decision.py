"""The decision: how many replicas a service gets now, and why."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from anyreplica.autoscale.policy import Policy
from anyreplica.autoscale.proposal import Figure, wanted

DOWN_SECONDS = 300.0
"""Scaling down uses the largest number that was wanted in this time, so that a short pause removes no replica."""

_MOST_FACTOR = 2
"""One step may at most multiply the replicas by this number."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of replicas that a service gets, and the reason in one sentence."""

    replicas: int
    why: str


class Scaler:
    """The decisions about one service. It remembers what was wanted in the last minutes."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[float, int]] = deque()

    def note(self, now: float, replicas: int) -> None:
        """Record a number that was wanted, or that somebody else has set. It counts for `DOWN_SECONDS`."""
        self._wanted.append((now, replicas))
        while self._wanted[0][0] < now - DOWN_SECONDS:
            self._wanted.popleft()

    def decide(self, policy: Policy, now: float, replicas: int, figures: Sequence[Figure]) -> Decision:
        """Return how many replicas the service gets.

        Args:
            now: time of a monotonic clock, in seconds.
            replicas: number of replicas that the service is set to.
            figures: at least one figure of the running replicas.
        """
        asked = [(wanted(figure), figure) for figure in figures]
        proposals = [(count, figure) for count, figure in asked if count is not None]
        unknown = [figure.name for count, figure in asked if count is None]
        if not proposals:
            return self._stay(policy, replicas, f"no replica gave a figure ({', '.join(unknown)})", now)
        most, figure = max(proposals, key=lambda pair: pair[0])
        if most < replicas and unknown:
            return self._stay(policy, replicas, f"no figures of {', '.join(unknown)}, so nothing is removed", now)
        self.note(now, most)
        known = figure.known
        why = f"{figure.name}: {sum(known) / len(known):.0%} of the target on {len(known)} replicas"
        if most > replicas:
            step = min(most, replicas * _MOST_FACTOR)
            return _bounded(policy, step, why if step == most else f"{why}; at most twice as many in one step")
        highest = max(count for _, count in self._wanted)
        if most < replicas and highest > most:
            step = min(replicas, highest)
            return _bounded(policy, step, f"{why}; {highest} were wanted in the last {DOWN_SECONDS:g} s")
        return _bounded(policy, most, why)

    def _stay(self, policy: Policy, replicas: int, why: str, now: float) -> Decision:
        """Keep the number of replicas, within the bounds of the policy. This number then counts as wanted."""
        self.note(now, replicas)
        return _bounded(policy, replicas, why)


def _bounded(policy: Policy, replicas: int, why: str) -> Decision:
    if replicas > policy.maximum:
        return Decision(policy.maximum, f"{why}; {policy.maximum} is the maximum")
    if replicas < policy.minimum:
        return Decision(policy.minimum, f"{why}; {policy.minimum} is the minimum")
    return Decision(replicas, why)
