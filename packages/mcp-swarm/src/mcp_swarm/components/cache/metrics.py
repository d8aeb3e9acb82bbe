"""How calls of tools were answered whose results are kept."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_swarm.components.cache.cache import Cache


class CacheMetrics(Collector):
    """Tells of a cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """All that was counted."""
        names = ("tool", "result")
        told = "Calls of cached tools: hit, stale, miss, shared, bypassed."
        family = CounterMetricFamily("mcp_cache_requests", told, None, names)
        for labels, count in list(self._cache.counts.items()):
            family.add_metric(labels, count)
        yield family
        yield GaugeMetricFamily("mcp_cache_bytes", "Of results in this replica's memory.", self._cache.memory.currsize)
