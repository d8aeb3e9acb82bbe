"""`GET /metrics`, as Prometheus reads it."""

import secrets
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

PATH = "/metrics"


def metrics_route(
    collectors: Iterable[Collector], look: Callable[[], Awaitable[None]], token: SecretStr | None
) -> Route:
    """`/metrics`: the classic text format, or OpenMetrics for who accepts it. Callers show the token, if there is one.

    `look` gets what a collector can't ask for by itself, before each reply.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
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
        await look()
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=content_type)

    return Route(PATH, show)
