"""How a service wants to be scaled: the labels of the service."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OURS = "anyreplica.autoscale"

_WIDESPREAD = "swarm.autoscaler"

_YES, _NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

_MOST_REPLICAS = 10_000

_LEAST_TARGET = 0.01

_LEAST_SECONDS = 0.001

_SHOWN = 100
"""The log shows so many characters of a wrong value."""

_TARGET = 0.6

_AGE_SECONDS = 30.0

ABOVE = 0.05
"""If the load is above the target by at most this share, no replica is added. The default of Kubernetes is 0.1. With
0.1, a load that rises slowly overloads the replicas before one is added (`benchmarks.autoscale`, table "sawtooth")."""

BELOW = 0.1
"""If the load is below the target by at most this share, no replica is removed."""

MOST_LOAD = 100.0
"""A larger load counts as this one, so the sum of the loads is always a number."""

_ROUNDING = 1e-9

DOWN_SECONDS = 300.0
"""Default of `Policy.down_seconds`, as in Kubernetes."""

_MOST_DOWN_SECONDS = 3600.0

_LONG_OUTAGE = 60.0
"""After so many seconds without a figure, the numbers that were wanted before say nothing about the load."""

_MOST_FACTOR = 2
"""One step may at most multiply the replicas by this number."""


class LabelError(ValueError):
    """A label of a service has a wrong value. The text names the label, the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The bounds and the target of one service.

    Attributes:
        minimum: smallest number of replicas.
        maximum: largest number of replicas.
        target: share of its capacity that a replica should use, from 0.01 to 1.
        lag_seconds: longest acceptable event-loop lag, in seconds. None: the lag does not matter.
        p99_seconds: longest acceptable 99th percentile of the durations of calls, in seconds. None: it does not matter.
        queue_of: for a service of workers, the service in the same stack whose replicas report the queue. Empty: the
            service consists of replicas.
        age_seconds: longest acceptable age of the oldest waiting job, in seconds.
        down_seconds: scaling down uses the largest number that was wanted in this time, so that a short pause removes
            no replica.
    """

    minimum: int
    maximum: int
    target: float = _TARGET
    lag_seconds: float | None = None
    p99_seconds: float | None = None
    queue_of: str = ""
    age_seconds: float = _AGE_SECONDS
    down_seconds: float = DOWN_SECONDS


def policy_of(labels: Mapping[str, str]) -> Policy | None:
    """Return the policy in the labels of a service; None: the service is not scaled.

    The labels are `anyreplica.autoscale` (`true` or `false`), `anyreplica.autoscale.min`, `.max`, `.target`,
    `.lag-seconds`, `.p99-seconds` and `.down-seconds`, and for workers `.queue-of` and `.age-seconds`. The labels
    `swarm.autoscaler`, `swarm.autoscaler.minimum` and `swarm.autoscaler.maximum` of other tools count, too, where ours
    is missing.

    Raises:
        LabelError: a label has a wrong value, `min` or `max` is missing, or `min` is larger than `max`.
    """
    switch = _first(labels, _OURS, _WIDESPREAD)
    if switch is None or not _is_yes(*switch):
        return None
    minimum = _whole(labels, f"{_OURS}.min", f"{_WIDESPREAD}.minimum")
    maximum = _whole(labels, f"{_OURS}.max", f"{_WIDESPREAD}.maximum")
    if minimum > maximum:
        raise LabelError(f"{_OURS}.min={minimum} is larger than {_OURS}.max={maximum}")
    target = _number(labels, f"{_OURS}.target", _LEAST_TARGET, 1.0)
    lag = _number(labels, f"{_OURS}.lag-seconds", _LEAST_SECONDS, 60.0)
    p99 = _number(labels, f"{_OURS}.p99-seconds", _LEAST_SECONDS, 3600.0)
    age = _number(labels, f"{_OURS}.age-seconds", _LEAST_SECONDS, 86_400.0)
    down = _number(labels, f"{_OURS}.down-seconds", 0.0, _MOST_DOWN_SECONDS)
    return Policy(
        minimum,
        maximum,
        _TARGET if target is None else target,
        lag,
        p99,
        labels.get(f"{_OURS}.queue-of", "").strip(),
        _AGE_SECONDS if age is None else age,
        DOWN_SECONDS if down is None else down,
    )


def _first(labels: Mapping[str, str], *names: str) -> tuple[str, str] | None:
    """Return the first of these labels that the service has, and its value."""
    return next(((name, labels[name].strip()) for name in names if name in labels), None)


def _is_yes(name: str, value: str) -> bool:
    if value.lower() in _YES:
        return True
    if value.lower() in _NO:
        return False
    raise LabelError(f"{name}={_shown(value)}: must be true or false")


def _whole(labels: Mapping[str, str], *names: str) -> int:
    found = _first(labels, *names)
    if found is None:
        raise LabelError(f"{names[0]} is missing; set it to a number of replicas")
    name, value = found
    if not (value.isascii() and value.isdecimal()) or len(value) > 6 or not 1 <= int(value) <= _MOST_REPLICAS:
        raise LabelError(f"{name}={_shown(value)}: must be a whole number from 1 to {_MOST_REPLICAS}")
    return int(value)


def _number(labels: Mapping[str, str], name: str, least: float, most: float) -> float | None:
    found = _first(labels, name)
    if found is None:
        return None
    try:
        value = float(found[1])
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise LabelError(f"{name}={_shown(found[1])}: must be a number from {least:g} to {most:g}")
    return value


def _shown(value: str) -> str:
    return repr(value[:_SHOWN])


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

    The rules are those of the Horizontal Pod Autoscaler of Kubernetes ("Algorithm details" in its documentation).

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


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of replicas that a service gets, and the reason in one sentence."""

    replicas: int
    why: str


class Scaler:
    """The decisions about one service. It remembers what was wanted in the last minutes."""

    def __init__(self) -> None:
        self._wanted: deque[tuple[float, int]] = deque()
        self._known_at = -math.inf
        """When the last decision had figures."""

    def note(self, now: float, replicas: int) -> None:
        """Record a number that was wanted, or that somebody else has set. It counts for `Policy.down_seconds`."""
        self._wanted.append((now, replicas))
        while self._wanted[0][0] < now - _MOST_DOWN_SECONDS:
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
        self._known_at = now
        known = figure.known
        why = f"{figure.name}: {sum(known) / len(known):.0%} of the target on {len(known)} replicas"
        if most > replicas:
            step = min(most, replicas * _MOST_FACTOR)
            return _bounded(policy, step, why if step == most else f"{why}; at most twice as many in one step")
        highest = max(count for at, count in self._wanted if at >= now - policy.down_seconds)
        if most < replicas and highest > most:
            step = min(replicas, highest)
            return _bounded(policy, step, f"{why}; {highest} were wanted in the last {policy.down_seconds:g} s")
        return _bounded(policy, most, why)

    def _stay(self, policy: Policy, replicas: int, why: str, now: float) -> Decision:
        """Keep the number of replicas, within the bounds of the policy.

        After a long time without figures, this number counts as wanted. One lost answer says nothing, so after a short
        time the earlier numbers go on to count.
        """
        if now - self._known_at > _LONG_OUTAGE:
            self.note(now, replicas)
        return _bounded(policy, replicas, why)


def _bounded(policy: Policy, replicas: int, why: str) -> Decision:
    if replicas > policy.maximum:
        return Decision(policy.maximum, f"{why}; {policy.maximum} is the maximum")
    if replicas < policy.minimum:
        return Decision(policy.minimum, f"{why}; {policy.minimum} is the minimum")
    return Decision(replicas, why)
