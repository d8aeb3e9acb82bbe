"""The state that a replica is in, as gauges."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass

import fastmcp
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.registry import Collector

from mcp_swarm._version import __version__
from mcp_swarm.http.in_flight import InFlight
from mcp_swarm.http.uvicorn.connections import Connections
from mcp_swarm.metrics.durations import Durations
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.ratelimit.shared_buckets import SharedBuckets
from mcp_swarm.shared.peers import Peers

_REQUESTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)


@dataclass(eq=False)
class ReplicaMetrics(Collector):
    """Who answers, and how busy it is; `fleet` has the rates that all replicas share, if they do."""

    name: str
    lifecycle: Lifecycle
    in_flight: InFlight
    connections: Connections
    fleet: SharedBuckets | None
    peers: Peers

    def __post_init__(self) -> None:
        self._carried = Durations(_REQUESTS)
        self.connections.closed = self._carried.observe

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        info = ("replica", "version", "python", "fastmcp")
        family = Gauge("mcp_replica_info", "Which replica this is, and what it runs; always 1.", None, info)
        family.add_metric((self.name, __version__, platform.python_version(), fastmcp.__version__), 1)
        yield family
        yield Gauge("mcp_replicas", "How many replicas there are to be, by MCP_REPLICAS.", self.peers.meant)
        yield Gauge("mcp_replicas_seen", "How many replicas there are, as far as this one knows.", self.peers.count)
        draining = self.lifecycle.state == "draining"
        yield Gauge("mcp_replica_draining", "1 while the replica drains.", draining)
        yield Gauge("mcp_requests_in_flight", "Requests that arrive or are answered.", self.in_flight.count)
        yield Gauge("mcp_requests_in_flight_max", "Calls at once, beyond which: 503.", self.in_flight.most)
        connections, closed = self.connections, sum(self._carried.counts)
        yield Gauge("mcp_connections", "Connections that are open.", connections.opened - closed)
        yield Gauge("mcp_connections_max", "Connections at once.", connections.settings.max_connections)
        yield CounterMetricFamily("mcp_connections_opened", "Connections that were opened.", connections.opened)
        carried = HistogramMetricFamily("mcp_connection_requests", "Requests of a connection, when it has ended.")
        self._carried.add_to(carried)
        yield carried
        if self.fleet is not None:
            told = "Whether callers' rates hold by replica, since Redis can't be reached."
            yield Gauge("mcp_rates_alone", told, self.fleet.alone)
            yield CounterMetricFamily("mcp_rates_outages", "How often that began.", self.fleet.outages)
