"""A replica under granian: HTTP in Rust, 1.1 and 2."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from server.config import Settings


async def serve(app: ASGIApp, settings: Settings, stop: asyncio.Event, **other: Any) -> None:
    """Serve until the event is set.

    Args:
        other: more arguments of granian's `Server`.

    Raises:
        ImportError: granian isn't installed.
    """
    from granian.constants import Interfaces  # noqa: PLC0415
    from granian.http import HTTP1Settings, HTTP2Settings  # noqa: PLC0415
    from granian.server.embed import Server  # noqa: PLC0415

    server = Server(
        app,
        address=settings.mcp_host,
        port=settings.mcp_port,
        uds=Path(settings.mcp_uds) if settings.mcp_uds else None,
        interface=Interfaces.ASGI,
        websockets=False,
        backlog=2048,
        log_enabled=False,
        http1_settings=HTTP1Settings(
            header_read_timeout=int(settings.receive_timeout_seconds * 1000),
            max_buffer_size=max(8192, settings.max_head_bytes),
        ),
        http2_settings=HTTP2Settings(max_headers_size=settings.max_head_bytes),
        **other,
    )

    async def watch() -> None:
        await stop.wait()
        server.stop()  # type: ignore[no-untyped-call]

    watching = asyncio.create_task(watch())
    try:
        await server.serve()
    finally:
        watching.cancel()
