"""The APIs that tools call, as `mcp_swarm.downstream` knows them."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_swarm.downstream import HOSTS

_BREAKER = {"closed": 0, "half-open": 1, "open": 2}
_BY_HOST = ("host",)


class DownstreamMetrics(Collector):
    """Tells of each host; of at most as many as are remembered."""

    def collect(self) -> Iterator[Metric]:
        """As they are now."""
        calls = CounterMetricFamily(
            "mcp_downstream_requests", "Calls of APIs: ok, error, timeout, open, limited.", None, ("host", "outcome")
        )
        retries = CounterMetricFamily("mcp_downstream_retries", "Tries beyond a call's first.", None, _BY_HOST)
        running = GaugeMetricFamily("mcp_downstream_in_flight", "Calls of APIs that run.", None, _BY_HOST)
        breaker = GaugeMetricFamily(
            "mcp_downstream_breaker_state", "0 closed; 1 half-open; 2 open: no calls are made.", None, _BY_HOST
        )
        for name, host in HOSTS.known.items():
            for outcome, count in host.outcomes.items():
                calls.add_metric((name, outcome), count)
            retries.add_metric((name,), host.retries)
            running.add_metric((name,), host.running)
            breaker.add_metric((name,), _BREAKER[host.breaker.state])
        yield from (calls, retries, running, breaker)
