"""The metrics of all processes of a replica, as one page. Each sample gets the label `process`."""

import json
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


def as_json(registry: CollectorRegistry) -> bytes:
    """Return all metrics of a registry as JSON, for another process."""
    return json.dumps(
        [
            (each.name, each.documentation, each.type, each.unit, [(s.name, s.labels, s.value) for s in each.samples])
            for each in registry.collect()
        ]
    ).encode()


def of_all(own: str, registry: CollectorRegistry, others: Mapping[str, bytes]) -> CollectorRegistry:
    """Return a registry that contains the metrics of all processes of the replica.

    The counters of the processes are not added up. If they were, the end of a process would look like a restart of the
    whole replica, and Prometheus would count the requests of the other processes twice.

    Args:
        own: The number of this process.
        registry: The metrics of this process.
        others: What `as_json` returned in the other processes, by their numbers. A page that ends too early, because
            its process was killed, is left out.
    """
    whole = CollectorRegistry(auto_describe=False)
    whole.register(_Processes({own: as_json(registry), **others}))
    return whole


class _Processes(Collector):
    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for process, text in sorted(self._texts.items()):
            try:
                found = json.loads(text)
            except ValueError:
                continue
            for name, documentation, kind, unit, samples in found:
                family = families.setdefault(name, Metric(name, documentation, kind, unit))
                family.samples += self._labelled(process, samples)
        return families.values()

    def _labelled(self, process: str, samples: Iterable[tuple[str, dict[str, str], float]]) -> Iterator[Sample]:
        for name, labels, value in samples:
            yield Sample(name, {**labels, "process": process}, value)
