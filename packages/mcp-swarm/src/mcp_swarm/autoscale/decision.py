"""The decision: how many replicas a service gets now, and why."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_swarm.autoscale.policy import Policy
from mcp_swarm.autoscale.proposal import Figure, wanted

DOWN_SECONDS = 300.0
"""Scaling down uses the largest number that was wanted in this time, so that a short pause removes no replica."""

_MOST_FACTOR = 2
"""One step may at most multiply the replicas by this number."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of replicas, and one sentence that explains it."""

    replicas: int
    why: str


class Scaler:
    """The decisions about one service. It remembers what was wanted in the last minutes."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[float, int]] = deque()

    def decide(self, policy: Policy, now: float, replicas: int, figures: Sequence[Figure]) -> Decision:
        """Return how many replicas the service gets.

        Args:
            now: time of a clock that never goes back, in seconds.
            replicas: number of replicas that the service is set to.
            figures: at least one figure of the running replicas.
        """
        proposals = [(found, figure) for figure in figures if (found := wanted(figure)) is not None]
        unknown = [figure.name for figure in figures if wanted(figure) is None]
        if not proposals:
            return self._within(policy, replicas, f"no replica gave a figure ({', '.join(unknown)})", now)
        most, figure = max(proposals, key=lambda pair: pair[0])
        if most < replicas and unknown:
            return self._within(policy, replicas, f"no figures of {', '.join(unknown)}, so nothing is removed", now)
        self._wanted.append((now, most))
        while self._wanted[0][0] < now - DOWN_SECONDS:
            self._wanted.popleft()
        known = figure.known
        why = f"{figure.name}: {sum(known) / len(known):.0%} of the target on {len(known)} replicas"
        if most > replicas:
            step = min(most, replicas * _MOST_FACTOR)
            return self._bounded(policy, step, why if step == most else f"{why}; at most twice as many in one step")
        highest = max(count for _, count in self._wanted)
        if most < replicas and highest > most:
            step = min(replicas, highest)
            return self._bounded(policy, step, f"{why}; {highest} were wanted in the last {DOWN_SECONDS:g} s")
        return self._bounded(policy, most, why)

    def forget(self) -> None:
        """Forget what was wanted before. Call it after a change that somebody else has made."""
        self._wanted.clear()

    def _within(self, policy: Policy, replicas: int, why: str, now: float) -> Decision:
        """Change nothing but a number outside of the bounds, and let the replicas of now count as wanted."""
        self._wanted.append((now, replicas))
        return self._bounded(policy, replicas, why)

    def _bounded(self, policy: Policy, replicas: int, why: str) -> Decision:
        if replicas > policy.maximum:
            return Decision(policy.maximum, f"{why}; {policy.maximum} is the maximum")
        if replicas < policy.minimum:
            return Decision(policy.minimum, f"{why}; {policy.minimum} is the minimum")
        return Decision(replicas, why)
