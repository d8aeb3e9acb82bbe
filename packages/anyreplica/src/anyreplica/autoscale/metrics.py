"""The metrics of the autoscaler itself."""

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_SERVICE = ["service"]


class AutoscaleMetrics(Collector):
    """What the autoscaler has seen and done, by service. The registry of `/metrics` collects it."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=True)
        self.replicas = Gauge(
            "mcp_autoscale_replicas", "Desired number of replicas of the service.", _SERVICE, registry=registry
        )
        self.wanted = Gauge(
            "mcp_autoscale_replicas_wanted", "Number of replicas of the last decision.", _SERVICE, registry=registry
        )
        self.minimum = Gauge("mcp_autoscale_replicas_min", "Smallest allowed number.", _SERVICE, registry=registry)
        self.maximum = Gauge("mcp_autoscale_replicas_max", "Largest allowed number.", _SERVICE, registry=registry)
        self.load = Gauge(
            "mcp_autoscale_load_ratio",
            "Average load of the replicas as a multiple of the target.",
            [*_SERVICE, "figure"],
            registry=registry,
        )
        self.silent = Gauge(
            "mcp_autoscale_replicas_without_figures", "Replicas that gave no figures.", _SERVICE, registry=registry
        )
        self.held = Gauge(
            "mcp_autoscale_held",
            "1 while the number must not change, for example during an update.",
            _SERVICE,
            registry=registry,
        )
        self.no_room = Gauge(
            "mcp_autoscale_replicas_without_room", "Replicas for which no node has room.", _SERVICE, registry=registry
        )
        self.changes = Counter(
            "mcp_autoscale_changes", "Changes of the number of replicas.", [*_SERVICE, "direction"], registry=registry
        )
        self.failures = Counter(
            "mcp_autoscale_failures",
            "Looks in which the service was not scaled because of an error.",
            _SERVICE,
            registry=registry,
        )
        self.looks = Counter("mcp_autoscale_looks", "Looks at all services.", ["outcome"], registry=registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        return iter(self._registry.collect())

    def forget(self, service: str) -> None:
        """Remove the gauges of a service that is no longer scaled."""
        for gauge in (self.replicas, self.wanted, self.minimum, self.maximum, self.silent, self.held, self.no_room):
            with contextlib.suppress(KeyError):
                gauge.remove(service)
        self.load.remove_by_labels({"service": service})
