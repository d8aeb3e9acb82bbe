"""Run one replica under `ASGI_SERVER`, when that isn't uvicorn."""

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop
from starlette.types import ASGIApp

from server.asgi import granian, hypercorn
from server.asgi.portable import Portable
from server.config import Settings
from server.errors import StartupError
from server.replica import EXIT_REFUSED

Serve = Callable[..., Coroutine[Any, Any, None]]

SERVERS: dict[str, Serve] = {"hypercorn": hypercorn.serve, "granian": granian.serve}
"""By the values of `ASGI_SERVER`."""


def check(settings: Settings) -> None:
    """
    Raises:
        StartupError: the server isn't installed.
    """
    name = settings.asgi_server
    if name in SERVERS and importlib.util.find_spec(name) is None:
        how = "pip install 'mcp-swarm[servers]', or make image EXTRAS=servers"
        raise StartupError(f"ASGI_SERVER={name} needs the package {name}: {how}")


def run(settings: Settings, make: Callable[[], ASGIApp], **other: Any) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code.

    Args:
        make: makes the app.
        other: the server's own options.
    """
    return uvloop.run(_run(settings, make, other))


async def _run(settings: Settings, make: Callable[[], ASGIApp], other: dict[str, Any]) -> int:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    # `server.lifecycle` holds these back until the replica has drained.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    app = Portable(make())
    file = Path(settings.mcp_uds) if settings.mcp_uds else None
    if file:
        file.unlink(missing_ok=True)  # of a process that is gone: `server.listening` has looked
    try:
        await SERVERS[settings.asgi_server](app, settings, stop, **other)
    except Exception:
        if not app.refused:
            raise
    finally:
        if file:
            file.unlink(missing_ok=True)
    return EXIT_REFUSED if app.refused else 0
