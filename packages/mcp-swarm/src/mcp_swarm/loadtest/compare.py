"""What changed since another run, and whether it is more than noise."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Any

_NOISE = 0.0001
"""Probability below which a difference is no chance."""

_SMALL = 0.03
"""Differences of so little are not worth a word, however certain."""

_FEWEST = 8
"""Slices that a run must have to be compared."""


@dataclass(frozen=True)
class Change:
    """One figure, then and now."""

    name: str
    before: float
    after: float
    unit: str
    verdict: str
    """`better`, `worse`, `noise`, or `too short to tell`."""

    @property
    def ratio(self) -> float | None:
        """Now to then; None if there was nothing then."""
        return self.after / self.before if self.before else None


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """What changed between two runs, as `files.as_json` has them.

    A figure's values in the slices of one run are held against those of the other (Mann and Whitney's rank test), so
    that a run's own unsteadiness decides what is noise. Failures are compared by their share (test of two
    proportions).

    Raises:
        KeyError, TypeError: one of them is no such run.
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
        verdict = "too short to tell"
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
    """The probability that two samples as different as these come from one source (Mann and Whitney 1947).

    By the normal approximation with correction for ties, which is good from eight values on.
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
