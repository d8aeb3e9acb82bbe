"""The app of a worker's process: runs jobs, and answers the same probes as a replica."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from server import config, downstream, logs
from server.config import Settings
from server.errors import StartupError
from server.http1 import limits
from server.http1.connections import KEY, Connections
from server.lifecycle import Lifecycle
from server.mcp_app import build
from server.middleware.access_lines import access_lines
from server.middleware.access_log import AccessLog
from server.replica import EXIT_REFUSED, end_regardless, name_of, process_lifespan
from server.routes.health import health_routes
from server.shared.redis import connect
from server.start import StartReport, refusing
from server.traces.tracing import Tracing, tracing
from server.work.job import Job

APP = "server.worker:app"
"""What uvicorn imports and calls."""


def app() -> ASGIApp:
    """What uvicorn serves in a worker's process, which it makes its own (logging, signals)."""
    try:
        with refusing():
            settings = config.load()
            buffer = logs.configure(settings, name_of(settings))
            jobs = jobs_of(settings)
            lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
            traced = tracing(settings, name_of(settings))
            downstream.configure(settings)
            routes = Starlette(
                routes=health_routes(lifecycle),
                lifespan=lambda _: _working(jobs, settings, lifecycle, process_lifespan(settings, lifecycle), traced),
            )
            return AccessLog(StartReport(routes), name_of(settings), access_lines(settings, name_of(settings), buffer))
    except StartupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_REFUSED)


def jobs_of(settings: Settings) -> Mapping[str, Job]:
    """What a worker runs.

    Raises:
        StartupError: nothing, or nothing that it could be given.
    """
    jobs = build(settings).jobs
    if settings.jobs_in_process:
        raise StartupError("JOBS_URL=memory://: a worker needs the Redis of the replicas; set JOBS_URL=redis://…")
    if not jobs:
        raise StartupError(f"MCP_COMPONENTS={','.join(settings.mcp_components)}: there are no jobs for a worker")
    connect(settings)  # which only looks at the URL
    return jobs


@asynccontextmanager
async def _working(
    jobs: Mapping[str, Job],
    settings: Settings,
    lifecycle: Lifecycle,
    around: AbstractAsyncContextManager[None],
    traced: Tracing | None,
) -> AsyncIterator[dict[str, Any]]:
    from server.work.backend import opened  # noqa: PLC0415  # with Docket, which only processes with jobs import
    from server.work.worker import JobWorker  # noqa: PLC0415

    connections = Connections(limits.of(settings))
    flushed = traced.running() if traced else nullcontext()
    async with around, flushed, downstream.closing(), opened(settings) as backend:
        worker = JobWorker(jobs, backend, settings, name_of(settings), lifecycle.cut)
        # During the drain a worker goes on with what it has. It takes no more, and has nothing else to wait for.
        lifecycle.at_drain.append(worker.take_no_more)
        async with worker.running():
            yield {KEY: connections}
