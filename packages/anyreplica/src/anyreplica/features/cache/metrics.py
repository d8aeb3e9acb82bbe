"""Prometheus metrics of the cache of tool results."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.features.cache.cache import Cache


class CacheMetrics(Collector):
    """The metrics of one cache: calls by how they were answered, and bytes in memory."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        names = ("tool", "result")
        text = "Calls of cached tools, by result: hit, stale, miss, shared or bypassed."
        family = CounterMetricFamily("mcp_cache_requests", text, None, names)
        for labels, count in list(self._cache.counts.items()):
            family.add_metric(labels, count)
        yield family
        text = "Size of the cached tool results in this replica's memory, in bytes."
        yield GaugeMetricFamily("mcp_cache_bytes", text, self._cache.memory.currsize)
