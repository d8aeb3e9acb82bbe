"""How often something took how long, by the buckets of a Prometheus histogram."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

REQUESTS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds, from what a plain call takes to what callers wait for at most."""


class Durations:
    """A histogram of one series; prometheus-client's own takes a lock and a loop for each observation."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = REQUESTS) -> None:
        self.bounds = bounds
        """The largest value of each bucket, ascending; what is larger still is counted, too."""
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Write the series."""
        bounds = [*map(floatToGoString, self.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self.counts), strict=True)), self.total)
