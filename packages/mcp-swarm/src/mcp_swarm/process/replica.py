"""One replica: its name, how uvicorn runs it, and what belongs to its process."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp

from mcp_swarm.process import garbage_collector, task_exits
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.process.watchdog import watch
from mcp_swarm.settings import Settings

_LAST_SECONDS = 1.0


def replica_name(settings: Settings) -> str:
    """This replica's name: `REPLICA_NAME`, else the host's, with a number if a local supervisor started it.

    Example:

        from mcp_swarm import Settings, replica_name

        print(replica_name(Settings.load()))
    """
    name = settings.replica_name or socket.gethostname()
    if multiprocessing.parent_process() is None:
        return name
    return f"{name}-{multiprocessing.current_process().name.rpartition('-')[2]}"  # SpawnProcess-1, …


def uvicorn_options(settings: Settings, app: str | ASGIApp) -> dict[str, Any]:
    """Keyword arguments of `uvicorn.Config` that every way to run a replica shares."""
    return {
        "app": app,
        "factory": isinstance(app, str),
        "interface": "asgi3",
        **({"uds": settings.mcp_uds} if settings.mcp_uds else {"host": settings.mcp_host, "port": settings.mcp_port}),
        "loop": "uvloop",
        "http": "mcp_swarm.http.uvicorn.protocol:HttpProtocol",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_worker_healthcheck": 30,  # a replica may take its time to start on a busy machine
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": settings.shutdown_grace_seconds,
    }


@asynccontextmanager
async def process_lifespan(settings: Settings, lifecycle: Lifecycle) -> AsyncIterator[None]:
    """What a replica's process does around serving: watch its event loop, drain on signals, end when it should."""
    loop = asyncio.get_running_loop()
    task_exits.install(loop)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        # Without its supervisor (killed, crashed) a replica would hold the port for ever.
        loop.add_reader(supervisor.sentinel, _exit, 1)
    garbage_collector.settle()
    try:
        with lifecycle.running():
            # local_replicas has blocked it until now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            async with watch(settings.loop_stall_seconds), garbage_collector.trimming():
                yield
    finally:
        _flush()  # a server may end its process by a signal now


def end_regardless() -> None:
    """End the process in a second, although a tool's thread or task runs on: Python waits for those."""
    timer = threading.Timer(_LAST_SECONDS, _exit, (0,))
    timer.daemon = True
    timer.start()


def _exit(code: int) -> None:
    """End the process at once, but for the log lines that wait."""
    _flush()
    os._exit(code)


def _flush() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
