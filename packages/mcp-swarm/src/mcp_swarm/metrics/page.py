"""`GET /metrics`, as Prometheus reads it."""

import secrets
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mcp_swarm.jobs.metrics import Queue

PATH = "/metrics"


def metrics_route(collectors: Iterable[Collector], queue: Queue, token: SecretStr | None) -> Route:
    """`/metrics`: the classic text format, or OpenMetrics for who accepts it.

    Args:
        queue: is looked at before.
        token: that has to be shown, if any.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in (*collectors, queue):
        registry.register(collector)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    shown = b"bearer " + token.get_secret_value().encode() if token else None

    async def show(request: Request) -> Response:
        if shown is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if not secrets.compare_digest(f"{scheme.lower()} {given.strip()}".encode(), shown):
                text = "Send the header Authorization: Bearer <METRICS_TOKEN>."
                return PlainTextResponse(text, 401, {"WWW-Authenticate": 'Bearer realm="metrics"'})
        await queue.look()
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=content_type)

    return Route(PATH, show)
