"""The feature *cache*: results of tools with `cached(…)`, in memory and in Redis."""

from collections.abc import Iterator

from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.tools import FunctionTool
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.components.containment import AsyncFunction
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.cache.cache import Cache, CachedTool
from anyreplica.features.cache.policy import policy_of
from anyreplica.features.cache.settings import CacheSettings
from anyreplica.features.cache.shared_results import SharedResults


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


class ResultCache(Feature):
    """Wraps the cached tools of a server. All of them share one cache."""

    settings: CacheSettings

    def __init__(self, settings: CacheSettings) -> None:
        super().__init__(settings)
        self._cache = Cache(settings.cache_bytes, settings.max_in_flight)

    def wrap_tool(self, tool: FunctionTool, function: AsyncFunction) -> AsyncFunction:
        """Return the cached function of a tool that has a policy.

        Raises:
            ValueError: The policy is invalid, the tool has a parameter for Context or dependencies, or its return type
                cannot be written as JSON.
        """
        policy = policy_of(tool.meta)
        if policy is None:
            return function
        if without_injected_parameters(function) is not function:
            raise ValueError("a cached tool cannot have parameters for Context or dependencies")
        seconds = tool.timeout or self.settings.call_timeout_seconds
        return CachedTool(function, self._cache, policy, tool.name, tool.version, seconds).function()

    def attach(self, replica: Replica) -> Parts:
        redis = replica.redis
        self._cache.shared = None if redis is None else SharedResults(redis, self.settings.mcp_name)
        return Parts(collectors=[CacheMetrics(self._cache)])
