"""How a service wants to be scaled: the labels of the service."""

import math
from collections.abc import Mapping
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
    """

    minimum: int
    maximum: int
    target: float = _TARGET
    lag_seconds: float | None = None
    p99_seconds: float | None = None
    queue_of: str = ""
    age_seconds: float = _AGE_SECONDS


def policy_of(labels: Mapping[str, str]) -> Policy | None:
    """Return the policy in the labels of a service; None: the service is not scaled.

    The labels are `anyreplica.autoscale` (`true` or `false`), `anyreplica.autoscale.min`, `.max`, `.target`,
    `.lag-seconds` and `.p99-seconds`, and for workers `.queue-of` and `.age-seconds`. The labels `swarm.autoscaler`,
    `swarm.autoscaler.minimum` and `swarm.autoscaler.maximum` of other tools count, too, where ours is missing.

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
    return Policy(
        minimum,
        maximum,
        _TARGET if target is None else target,
        lag,
        p99,
        labels.get(f"{_OURS}.queue-of", "").strip(),
        _AGE_SECONDS if age is None else age,
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
