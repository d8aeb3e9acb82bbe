"""A replica under hypercorn: HTTP/1.1, and HTTP/2 for callers that begin with it."""

import asyncio
import logging
from typing import Any, cast

from starlette.types import ASGIApp

from server.asgi.departure import Departure
from server.config import Settings

_NO_END = 2**63
"""Requests of a connection: at the end of an HTTP/2 connection hypercorn drops those that it is answering."""


async def serve(app: ASGIApp, settings: Settings, stop: asyncio.Event, **other: Any) -> None:
    """Serve until the event is set.

    Args:
        other: more members of hypercorn's `Config`.

    Raises:
        ImportError: hypercorn isn't installed.
    """
    from hypercorn.asyncio import serve as serve_hypercorn  # noqa: PLC0415
    from hypercorn.config import Config  # noqa: PLC0415

    host = f"[{settings.mcp_host}]" if ":" in settings.mcp_host else settings.mcp_host
    config = Config.from_mapping(
        bind=[f"unix:{settings.mcp_uds}" if settings.mcp_uds else f"{host}:{settings.mcp_port}"],
        errorlog=logging.getLogger("hypercorn.error"),
        include_server_header=False,
        keep_alive_timeout=settings.keep_alive_seconds,
        h11_max_incomplete_size=settings.max_head_bytes,
        h2_max_header_list_size=settings.max_head_bytes,
        keep_alive_max_requests=_NO_END,
        graceful_timeout=settings.shutdown_grace_seconds,
        **other,
    )
    await serve_hypercorn(cast("Any", Departure(app)), config, shutdown_trigger=stop.wait, mode="asgi")
