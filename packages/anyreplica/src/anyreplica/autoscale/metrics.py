"""The metrics of the autoscaler itself."""

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class AutoscaleMetrics(Collector):
    """What the autoscaler has seen and done, by service. The registry of `/metrics` collects it."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=True)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"mcp_autoscale_{name}", text, ["service", *labels], registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"mcp_autoscale_{name}", text, labels, registry=registry)

        self.replicas = gauge("replicas", "Desired number of replicas of the service.")
        self.wanted = gauge("replicas_wanted", "Number of replicas of the last decision.")
        self.minimum = gauge("replicas_min", "Smallest allowed number.")
        self.maximum = gauge("replicas_max", "Largest allowed number.")
        self.load = gauge("load_ratio", "Average load of the replicas as a multiple of the target.", "figure")
        self.silent = gauge("replicas_without_figures", "Replicas that gave no figures.")
        self.held = gauge("held", "1 while the number must not change, for example during an update.")
        self.no_room = gauge("replicas_without_room", "Replicas for which no node has room.")
        self.changes = counter("changes", "Changes of the number of replicas.", "service", "direction")
        text = "Checks in which the service was not scaled because of an error."
        self.failures = counter("failures", text, "service")
        self.looks = counter("looks", "Checks of all services.", "outcome")
        for outcome in ("ok", "failed"):  # a rate needs the count before the first failure
            self.looks.labels(outcome)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        return iter(self._registry.collect())

    def forget(self, service: str) -> None:
        """Remove the gauges of a service that is no longer scaled."""
        for gauge in (self.replicas, self.wanted, self.minimum, self.maximum, self.silent, self.held, self.no_room):
            with contextlib.suppress(KeyError):
                gauge.remove(service)
        self.load.remove_by_labels({"service": service})
