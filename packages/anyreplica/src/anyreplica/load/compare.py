"""A comparison of two runs that separates real changes from noise."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Any

_NOISE = 0.0001
"""A difference counts as real if the probability of chance is below this value."""

_SMALL = 0.03
"""A relative difference up to this value counts as noise, even if it is statistically certain."""

_FEWEST = 8
"""Minimum number of slices of a run for a comparison."""


@dataclass(frozen=True)
class Change:
    """One metric in both runs."""

    name: str
    before: float
    after: float
    unit: str
    verdict: str
    """`better`, `worse`, `noise`, or `too little data`."""

    @property
    def ratio(self) -> float | None:
        """The value now divided by the value before; None if the value before was 0."""
        return self.after / self.before if self.before else None


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Compare two runs in the form of `output.as_json`.

    For throughput, p50 and p99 the comparison uses the values in the slices of both runs (Mann and Whitney's rank
    test). So the variation inside each run decides which difference is noise. For failures it compares the shares of
    failed requests (test of two proportions).

    Raises:
        KeyError, TypeError: One of the arguments does not have the form of `output.as_json`.
    """
    return [
        _by_slices("throughput", "/s", before, after, _rate, more_is_better=True),
        _by_slices("p50", "ms", before, after, lambda each: each["p50"], more_is_better=False),
        _by_slices("p99", "ms", before, after, lambda each: each["p99"], more_is_better=False),
        _failures(before, after),
    ]


def _rate(each: dict[str, Any]) -> float:
    return float((each["requests"] - each["failed"]) / each["seconds"])


def _by_slices(
    name: str,
    unit: str,
    before: dict[str, Any],
    after: dict[str, Any],
    value: Callable[[dict[str, Any]], float | None],
    *,
    more_is_better: bool,
) -> Change:
    old, new = ([figure for each in run["slices"] if (figure := value(each)) is not None] for run in (before, after))
    if min(len(old), len(new)) < _FEWEST:
        verdict = "too little data"
    else:
        middle, now = median(old), median(new)
        certain = rank_test(old, new) < _NOISE and abs(now - middle) > _SMALL * max(middle, 1e-9)
        verdict = ("better" if (now > middle) is more_is_better else "worse") if certain else "noise"
    figures = [run["throughput"] if name == "throughput" else run["latency"][name] or 0.0 for run in (before, after)]
    return Change(name, figures[0], figures[1], unit, verdict)


def _failures(before: dict[str, Any], after: dict[str, Any]) -> Change:
    shares = [run["failed"] / run["requests"] if run["requests"] else 0.0 for run in (before, after)]
    total = before["requests"] + after["requests"]
    pooled = (before["failed"] + after["failed"]) / total if total else 0.0
    spread = pooled * (1 - pooled) * sum(1 / run["requests"] for run in (before, after) if run["requests"])
    verdict = "noise"
    if spread and _two_sided((shares[1] - shares[0]) / math.sqrt(spread)) < _NOISE:
        verdict = "worse" if shares[1] > shares[0] else "better"
    return Change("failed", shares[0] * 100, shares[1] * 100, "%", verdict)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability that two samples from one source differ at least this much (Mann and Whitney 1947).

    The function uses the normal approximation with correction for ties. The approximation is good for eight or more
    values.
    """
    everything = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    count, ranks, ties = len(everything), 0.0, 0.0
    start = 0
    while start < count:
        end = start
        while end < count and everything[end][0] == everything[start][0]:
            end += 1
        ranks += sum(1 - which for _, which in everything[start:end]) * (start + 1 + end) / 2
        ties += (end - start) ** 3 - (end - start)
        start = end
    one, two = len(first), len(second)
    statistic = ranks - one * (one + 1) / 2
    spread = one * two / 12 * (count + 1 - ties / (count * (count - 1)))
    if spread <= 0:
        return 1.0
    return _two_sided((statistic - one * two / 2) / math.sqrt(spread))


def _two_sided(deviations: float) -> float:
    return 2 * (1 - NormalDist().cdf(abs(deviations)))
