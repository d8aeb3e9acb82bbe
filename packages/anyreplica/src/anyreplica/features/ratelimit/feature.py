"""The feature *rate limits*: limits of the calls of each caller and of the whole replica."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.ratelimit.limiter import rate_limiter
from anyreplica.features.ratelimit.settings import RateLimitSettings
from anyreplica.features.ratelimit.shared_buckets import SharedBuckets


class RateMetrics(Collector):
    """The metrics of outages of Redis, in which a replica applies its own share of the limits."""

    def __init__(self, fleet: SharedBuckets) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        text = "1 while the replica applies its share of the rate limits, because Redis can't be reached."
        yield GaugeMetricFamily("mcp_rates_alone", text, self._fleet.degraded)
        text = "Number of outages of Redis during which the replica applied its share of the rate limits."
        yield CounterMetricFamily("mcp_rates_outages", text, self._fleet.outages)


class RateLimits(Feature):
    """Refuses calls beyond RATE_LIMIT, REPLICA_RATE_LIMIT, or the rate of a caller's key."""

    settings: RateLimitSettings

    def attach(self, replica: Replica) -> Parts:
        limiter = rate_limiter(self.settings, replica.redis, replica.name, replica.peers)
        if limiter is None:
            return Parts()
        collectors = [] if limiter.fleet is None else [RateMetrics(limiter.fleet)]
        return Parts(limiter=limiter, collectors=collectors, running=[limiter.running()])
