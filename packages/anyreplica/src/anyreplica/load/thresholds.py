"""Thresholds: conditions that the result of a run must meet, such as `p99<200ms`."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from anyreplica.load.summary import Summary

_FORM = re.compile(r"\s*([a-z][a-z0-9._]*)\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)?)\s*(ms|s|%|/s)?\s*")

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

_TIMES: dict[str, Callable[[Summary], float | None]] = {
    "mean": lambda summary: summary.latency.mean,
    "p50": lambda summary: summary.latency.p50,
    "p75": lambda summary: summary.latency.p75,
    "p90": lambda summary: summary.latency.p90,
    "p95": lambda summary: summary.latency.p95,
    "p99": lambda summary: summary.latency.p99,
    "p99.9": lambda summary: summary.latency.p99_9,
    "max": lambda summary: summary.latency.max,
}
_PLAIN: dict[str, Callable[[Summary], float | None]] = {
    "requests": lambda summary: summary.requests,
    "failed": lambda summary: summary.failed,
    "replicas": lambda summary: len(summary.replicas),
    "evenness": lambda summary: summary.evenness.index,
    "connections": lambda summary: summary.connections,
}
_METRICS: dict[str, Callable[[Summary], float | None]] = {
    **_TIMES,
    **_PLAIN,
    "throughput": lambda summary: summary.throughput,
    "error_rate": lambda summary: summary.failed / summary.requests if summary.requests else None,
}
HELP = ", ".join(_METRICS)


@dataclass(frozen=True)
class Threshold:
    """One condition on a metric."""

    text: str
    metric: str
    sign: str
    bound: float
    """The limit in the metric's unit: milliseconds, requests per second, a share from 0 to 1, or a count."""

    @classmethod
    def of(cls, text: str) -> "Threshold":
        """Parse a threshold.

        Raises:
            ValueError: The text is not a threshold; the message contains an example.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a threshold; write it like 'p99<200ms', 'failed==0' or 'error_rate<1%'")
        metric, sign, number, unit = match[1], match[2], float(match[3]), match[4] or ""
        if metric not in _METRICS:
            raise ValueError(f"{metric!r} is not a metric; the metrics are {HELP}")
        if unit not in _units(metric):
            raise ValueError(f"{text!r}: {metric} can't have the unit {unit}")
        scale = {"s": 1000.0, "%": 0.01}.get(unit, 1.0)
        return cls(text.strip(), metric, sign, number * scale)

    @property
    def is_lower_throughput(self) -> bool:
        """Whether the threshold sets a lower limit of the throughput."""
        return self.metric == "throughput" and self.sign not in ("<", "<=")

    def broken(self, summary: Summary) -> str:
        """Return a sentence if the run breaks this threshold, otherwise an empty string.

        A run without a value for the metric (no request succeeded) breaks the threshold.
        """
        value = _METRICS[self.metric](summary)
        if value is None:
            return f"{self.text}: {self.metric} has no value, because no request succeeded"
        if _HOLDS[self.sign](value, self.bound):
            return ""
        return f"{self.text}: {self.metric} is {_shown(self.metric, value)}"


def _units(metric: str) -> tuple[str, ...]:
    if metric in _TIMES:
        return "", "ms", "s"
    if metric == "throughput":
        return "", "/s"
    return ("", "%") if metric in ("error_rate", "evenness") else ("",)


def _shown(metric: str, value: float) -> str:
    if metric in _TIMES:
        return f"{value:.1f} ms"
    if metric == "error_rate":
        return f"{value:.2%}"
    return f"{value:.4g}" if metric == "evenness" else f"{value:g}"
