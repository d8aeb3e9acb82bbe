"""Metrics about the state of a replica."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass

import fastmcp
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.registry import Collector

from anyreplica._version import __version__
from anyreplica.http.durations import Durations
from anyreplica.http.in_flight import InFlight
from anyreplica.http.uvicorn.connections import Connections
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.shared.peers import Peers

_REQUESTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)


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
        yield Gauge("mcp_replicas", "Number of replicas that MCP_REPLICAS sets.", self.peers.planned)
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
