"""A counter of durations in the buckets of a Prometheus histogram."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

REQUESTS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds for durations of requests, in seconds: from a simple call to the longest wait of a client."""


class Durations:
    """A histogram with one series. prometheus-client's histogram needs a lock and a loop for each observation."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = REQUESTS) -> None:
        self.bounds = bounds
        """Upper bound of each bucket, in ascending order. A further bucket counts all larger values."""
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Add the series to a metric family."""
        bounds = [*map(floatToGoString, self.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self.counts), strict=True)), self.total)
