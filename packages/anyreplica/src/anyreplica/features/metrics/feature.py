"""The feature *metrics*: a page for Prometheus about the replica, its requests and all other features."""

import asyncio
import platform
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import fastmcp
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.registry import Collector

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.metrics.page import metrics_route
from anyreplica.features.metrics.requests import RequestMetrics
from anyreplica.features.metrics.settings import MetricsSettings
from anyreplica.http.durations import Durations
from anyreplica.http.limits import InFlight
from anyreplica.http.uvicorn.connections import Connections
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.shared.peers import Peers

_REQUESTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)

_APART = 0.25
"""Time between two measurements, in seconds."""

_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(eq=False)
class ReplicaMetrics(Collector):
    """Metrics about a replica and its load."""

    name: str
    lifecycle: Lifecycle
    in_flight: InFlight
    connections: Connections
    peers: Peers

    def __post_init__(self) -> None:
        self._carried = Durations(_REQUESTS)
        self.connections.closed = self._carried.observe

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        info = ("replica", "version", "python", "fastmcp")
        family = Gauge("mcp_replica_info", "Name of the replica and versions of its software; always 1.", None, info)
        family.add_metric((self.name, __version__, platform.python_version(), fastmcp.__version__), 1)
        yield family
        yield Gauge("mcp_replicas", "Planned number of replicas: MCP_REPLICAS times WORKERS.", self.peers.planned)
        yield Gauge("mcp_replicas_seen", "Number of running replicas that this replica sees.", self.peers.count)
        draining = self.lifecycle.state == "draining"
        yield Gauge("mcp_replica_draining", "1 while the replica drains.", draining)
        yield Gauge("mcp_requests_in_flight", "Number of requests in flight.", self.in_flight.count)
        text = "Maximum number of requests in flight; a further request gets HTTP 503."
        yield Gauge("mcp_requests_in_flight_max", text, self.in_flight.most)
        connections, closed = self.connections, sum(self._carried.counts)
        yield Gauge("mcp_connections", "Number of open connections.", connections.opened - closed)
        yield Gauge("mcp_connections_max", "Maximum number of open connections.", connections.settings.max_connections)
        yield CounterMetricFamily("mcp_connections_opened", "Number of opened connections.", connections.opened)
        text = "Number of requests on a connection, counted when the connection closes."
        carried = HistogramMetricFamily("mcp_connection_requests", text)
        self._carried.add_to(carried)
        yield carried


class LoopLag(Collector):
    """The histogram of the event loop lag. A timer runs again and again, and this class records its delay."""

    def __init__(self) -> None:
        self._late = Durations(_BOUNDS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Measure the lag while the context is open."""
        self._wait(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._timer.cancel()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _APART
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._late.observe(max(0.0, loop.time() - due))
        self._wait(loop)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the histogram of all measurements."""
        text = "Delay with which the event loop runs a timer, in seconds."
        family = HistogramMetricFamily("mcp_event_loop_lag_seconds", text)
        self._late.add_to(family)
        yield family


class Metrics(Feature):
    """Serves METRICS_PATH. It comes last, because it shows the metrics of all features before it."""

    settings: MetricsSettings

    def attach(self, replica: Replica) -> Parts:
        lag = LoopLag()
        requests = RequestMetrics(replica.tool_paths, lambda: replica.lifecycle.state == "draining")
        state = ReplicaMetrics(
            replica.name, replica.lifecycle, replica.limits.in_flight, replica.connections, replica.peers
        )
        collectors = [requests, lag, state, *replica.attached("collectors")]
        token = self.settings.metrics_token
        page, answering = metrics_route(collectors, replica.attached("refresh"), token, self.settings.metrics_path)
        # With a token of their own, the metrics need it, and a caller's key does not open them.
        exact = {page.path: page.handle} if token else {}
        return Parts(routes=[page], exact=exact, observers=[requests.observer()], running=[lag.running(), answering])
