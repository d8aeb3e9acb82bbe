"""The route `GET METRICS_PATH` for Prometheus."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from anyreplica.features.metrics.processes import as_json, of_all
from anyreplica.process import siblings
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
        whole, others = await asyncio.gather(refreshed(), siblings.ask_others())
        if siblings.folder:
            whole = of_all(process_number(), whole, others)
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(whole), media_type=content_type)

    return Route(path, show), siblings.answering(for_siblings)
