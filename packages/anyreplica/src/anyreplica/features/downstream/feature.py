"""The feature *downstream*: calls of APIs by tools and jobs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anyreplica.auth.caller import caller_token
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.downstream import http_client
from anyreplica.features.downstream.exchange.entry import read
from anyreplica.features.downstream.http_client import HOSTS, TOKENS
from anyreplica.features.downstream.settings import DownstreamSettings
from anyreplica.mcp.compat.forwarding import authorize_proxies

_BREAKER = {"closed": 0, "half-open": 1, "open": 2}

_BY_HOST = ("host",)


class DownstreamMetrics(Collector):
    """The metrics of each host with a stored state."""

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        calls = CounterMetricFamily(
            "mcp_downstream_requests", "Number of calls to APIs, by host and outcome.", None, ("host", "outcome")
        )
        retries = CounterMetricFamily("mcp_downstream_retries", "Number of retries of calls to APIs.", None, _BY_HOST)
        running = GaugeMetricFamily("mcp_downstream_in_flight", "Number of calls to APIs that run now.", None, _BY_HOST)
        breaker = GaugeMetricFamily(
            "mcp_downstream_breaker_state",
            "State of the circuit breaker: 0 closed, 1 half-open, 2 open.",
            None,
            _BY_HOST,
        )
        for name, host in HOSTS.known.items():
            for outcome, count in host.outcomes.items():
                calls.add_metric((name, outcome), count)
            retries.add_metric((name,), host.retries)
            running.add_metric((name,), host.running)
            breaker.add_metric((name,), _BREAKER[host.breaker.state])
        exchanges = CounterMetricFamily(
            "mcp_downstream_exchanges",
            "Number of exchanges of callers' tokens, by host of the API and outcome.",
            None,
            ("host", "outcome"),
        )
        for (name, result), count in TOKENS.outcomes.items():
            exchanges.add_metric((name, result), count)
        tokens = GaugeMetricFamily("mcp_downstream_tokens", "Number of exchanged tokens in memory.", len(TOKENS.cache))
        yield from (calls, retries, running, breaker, exchanges, tokens)


class DownstreamCalls(Feature):
    """Sets up the client that tools use, and closes its connections after the lifespans of the components."""

    settings: DownstreamSettings

    def check(self) -> None:
        if self.settings.downstream_tokens_file is not None:
            read(self.settings.downstream_tokens_file)

    check_worker = check

    def attach(self, replica: Replica) -> Parts:
        http_client.configure(self.settings, caller_token)
        has_tokens = self.settings.downstream_tokens_file is not None
        authorize_proxies(http_client.UPSTREAMS.for_session if has_tokens else None)
        return Parts(collectors=[DownstreamMetrics()], open_first=[http_client.closing()])

    def in_worker(self, name: str) -> Sequence[AbstractAsyncContextManager[None]]:
        http_client.configure(self.settings)
        return [http_client.closing()]
