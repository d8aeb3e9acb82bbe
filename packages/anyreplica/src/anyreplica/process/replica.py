"""One replica: its name, its options for uvicorn, and its process."""

import asyncio
import importlib.util
import multiprocessing
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp

from anyreplica.process.ending import end_now, flush_logs
from anyreplica.process.event_loop import hide_late_lookups, stop_exits
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.listening import hosts
from anyreplica.process.upkeep import settle, trimming, watch
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

beside_others = False
"""Whether this process is one of several local replicas. The supervisor sets this in each of them."""


def replica_name(settings: CoreSettings) -> str:
    """Return the name of this replica: `REPLICA_NAME`, or the name of the host if `REPLICA_NAME` is empty.

    If a supervisor started this process, the name ends with a number, such as `host-2`.

    Example:

        from anyreplica import Settings, replica_name

        print(replica_name(Settings.load()))
    """
    name = settings.replica_name or socket.gethostname()
    return name if multiprocessing.parent_process() is None else f"{name}-{process_number()}"


def process_number() -> str:
    """Return the number that the supervisor of this process has given it. A new process never gets an old number."""
    return multiprocessing.current_process().name.rpartition("-")[2]  # ForkServerProcess-1, …


def uvicorn_options(settings: CoreSettings, app: str | ASGIApp) -> dict[str, Any]:
    """Return the keyword arguments of `uvicorn.Config`. All commands that start a replica use them.

    Raises:
        StartupError: the event loop of the settings is not installed.
    """
    if settings.event_loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise StartupError("EVENT_LOOP=uvloop: uvloop is not installed; install it, or set EVENT_LOOP=asyncio")
    return {
        "app": app,
        "factory": isinstance(app, str),
        "interface": "asgi3",
        **({"uds": settings.mcp_uds} if settings.mcp_uds else {"host": hosts(settings), "port": settings.mcp_port}),
        "loop": "anyreplica.process.event_loop:new_loop" if settings.event_loop == "asyncio" else settings.event_loop,
        "http": "anyreplica.http.uvicorn.protocol:HttpProtocol",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_worker_healthcheck": 30,  # on a busy machine the start of a replica can take long
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": settings.shutdown_grace_seconds,
    }


@asynccontextmanager
async def process_lifespan(settings: CoreSettings, lifecycle: Lifecycle) -> AsyncIterator[None]:
    """Inside the block: watch the event loop, drain when a signal arrives, and end if the supervisor ends."""
    loop = asyncio.get_running_loop()
    stop_exits(loop)
    hide_late_lookups(loop)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        # If its supervisor is killed or crashes, a replica must end. Otherwise it would use the port forever.
        loop.add_reader(supervisor.sentinel, end_now, 1)
    settle()
    try:
        with lifecycle.running():
            # `forked` has blocked SIGINT until now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            async with watch(settings.loop_stall_seconds), trimming():
                yield
    finally:
        flush_logs()  # after this block the ASGI server may end the process with a signal
