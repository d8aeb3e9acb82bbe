"""The state that a replica is in, as gauges."""

import platform
from collections.abc import Iterator, Sequence

import fastmcp
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_swarm._version import __version__
from mcp_swarm.http.in_flight import InFlight
from mcp_swarm.http.uvicorn.connections import Connections
from mcp_swarm.metrics.durations import Durations
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.ratelimit.shared_buckets import Fleet
from mcp_swarm.shared.peers import Peers

_REQUESTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)


class Replica(Collector):
    """Who answers, and how busy it is.

    Args:
        name: the replica's.
        lifecycle: knows whether it drains.
        in_flight: what counts its calls.
        connections: what counts its connections; tells from now on of each that ends.
        fleet: the rates that all replicas share, if they do.
        peers: know how many replicas there are.
    """

    def __init__(
        self,
        name: str,
        lifecycle: Lifecycle,
        in_flight: Sequence[InFlight],
        connections: Connections,
        fleet: Fleet | None,
        peers: Peers,
    ) -> None:
        self._name = name
        self._lifecycle = lifecycle
        self._in_flight = in_flight
        self._connections = connections
        self._fleet = fleet
        self._peers = peers
        self._carried = Durations(_REQUESTS)
        connections.closed = self._carried.observe

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        info = ("replica", "version", "python", "fastmcp")
        family = GaugeMetricFamily("mcp_replica_info", "Which replica this is, and what it runs; always 1.", None, info)
        family.add_metric((self._name, __version__, platform.python_version(), fastmcp.__version__), 1)
        yield family
        yield _gauge("mcp_replicas", "How many replicas there are to be, by MCP_REPLICAS.", self._peers.meant)
        yield _gauge("mcp_replicas_seen", "How many replicas there are, as far as this one knows.", self._peers.count)
        connections = self._connections
        closed = sum(self._carried.counts)
        yield _gauge(
            "mcp_replica_draining", "Whether the replica takes its leave.", self._lifecycle.state == "draining"
        )
        yield _gauge(
            "mcp_requests_in_flight", "Calls that are being answered.", sum(each.count for each in self._in_flight)
        )
        yield _gauge("mcp_requests_in_flight_max", "Calls at once, beyond which: 503.", self._in_flight[0].most)
        yield _gauge("mcp_connections", "Connections that are open.", connections.opened - closed)
        yield _gauge("mcp_connections_max", "Connections at once.", connections.limits.connections)
        yield CounterMetricFamily("mcp_connections_opened", "Connections that were opened.", connections.opened)
        carried = HistogramMetricFamily("mcp_connection_requests", "Requests of a connection, when it has ended.")
        self._carried.add_to(carried)
        yield carried
        if self._fleet is not None:
            told = "Whether callers' rates hold by replica, since Redis can't be reached."
            yield _gauge("mcp_rates_alone", told, self._fleet.alone)
            yield CounterMetricFamily("mcp_rates_outages", "How often that began.", self._fleet.outages)


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value)
