"""The route `GET METRICS_PATH` for Prometheus. If a replica has several processes, it has the metrics of all."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from anyreplica.process import replica
from anyreplica.process.replica import process_number


def metrics_route(
    collectors: Iterable[Collector],
    refresh: Sequence[Callable[[], Awaitable[None]]],
    token: SecretStr | None,
    path: str = "/metrics",
) -> tuple[Route, AbstractAsyncContextManager[None]]:
    """Return the route, and what must be open while it serves.

    The route replies in the classic text format, or in OpenMetrics if the client accepts it. If `token` is set, the
    client must send it. The route awaits the functions of `refresh` before each reply. They fetch the values that a
    collector cannot get without waiting. If the replica has several processes, the reply has the metrics of all.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    shown = b"bearer " + token.get_secret_value().encode() if token else None

    async def refreshed() -> CollectorRegistry:
        for each in refresh:
            await each()
        return registry

    async def for_siblings() -> bytes:
        return as_json(await refreshed())

    async def show(request: Request) -> Response:
        if shown is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if not secrets.compare_digest(f"{scheme.lower()} {given.strip()}".encode(), shown):
                text = "The metrics need a token; send the header Authorization: Bearer <METRICS_TOKEN>."
                return PlainTextResponse(text, 401, {"WWW-Authenticate": 'Bearer realm="metrics"'})
        whole, others = await asyncio.gather(refreshed(), replica.ask_siblings())
        if replica.folder:
            whole = of_all(process_number(), whole, others)
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(whole), media_type=content_type)

    return Route(path, show), replica.answering_siblings(for_siblings)


def as_json(registry: CollectorRegistry) -> bytes:
    """Return all metrics of a registry as JSON, for another process."""
    return json.dumps(
        [
            (each.name, each.documentation, each.type, each.unit, [(s.name, s.labels, s.value) for s in each.samples])
            for each in registry.collect()
        ]
    ).encode()


def of_all(own: str, registry: CollectorRegistry, others: Mapping[str, bytes]) -> CollectorRegistry:
    """Return a registry that contains the metrics of all processes of the replica. Each sample has the label `process`.

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
