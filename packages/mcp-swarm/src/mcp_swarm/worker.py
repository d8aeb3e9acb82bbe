"""The app of a worker's process: it runs jobs, and answers the same probes as a replica."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from mcp_swarm import downstream
from mcp_swarm.components.job import Job
from mcp_swarm.http.access_lines import access_lines
from mcp_swarm.http.access_log import AccessLog
from mcp_swarm.http.uvicorn import limits
from mcp_swarm.http.uvicorn.connections import KEY, Connections
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.process.log_buffer import LogBuffer
from mcp_swarm.process.replica import end_regardless, process_lifespan, replica_name
from mcp_swarm.process.start import StartReport
from mcp_swarm.routes.health import health_routes
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.shared.redis import connect
from mcp_swarm.tracing.tracing import Tracing, tracing

Opened = Callable[[], AbstractAsyncContextManager[object]]


def worker_app(jobs: Mapping[str, Job], settings: Settings, buffer: LogBuffer, opened: Opened) -> ASGIApp:
    """What uvicorn serves in a worker's process.

    Args:
        buffer: where log lines go.
        opened: the author's lifespan.

    Raises:
        StartupError: there are no jobs, or nothing that a worker could take them from.
    """
    check(jobs, settings)
    lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
    traced = tracing(settings, replica_name(settings))
    downstream.configure(settings)
    around = process_lifespan(settings, lifecycle)
    routes = Starlette(
        routes=health_routes(lifecycle),
        lifespan=lambda _: _working(jobs, settings, lifecycle, around, traced, opened),
    )
    name = replica_name(settings)
    return AccessLog(StartReport(routes), name, access_lines(settings, name, buffer))


def check(jobs: Mapping[str, Job], settings: Settings) -> None:
    """Look whether a worker would have something to do.

    Raises:
        StartupError: nothing, or nothing that it could be given.
    """
    if settings.jobs_in_process:
        raise StartupError("JOBS_URL=memory://: a worker needs the Redis of the replicas; set JOBS_URL=redis://…")
    if not jobs:
        raise StartupError(f"MCP_COMPONENTS={','.join(settings.mcp_components)}: there are no jobs for a worker")
    connect(settings)  # which only looks at the URL


@asynccontextmanager
async def _working(
    jobs: Mapping[str, Job],
    settings: Settings,
    lifecycle: Lifecycle,
    around: AbstractAsyncContextManager[None],
    traced: Tracing | None,
    opened: Opened,
) -> AsyncIterator[dict[str, Any]]:
    from mcp_swarm.jobs import backend  # noqa: PLC0415  # with Docket, which only processes with jobs import
    from mcp_swarm.jobs.worker import JobWorker  # noqa: PLC0415

    connections = Connections(limits.of(settings))
    flushed = traced.running() if traced else nullcontext()
    async with around, flushed, downstream.closing(), opened(), backend.opened(settings) as queue:
        worker = JobWorker(jobs, queue, settings, replica_name(settings), lifecycle.cut)
        # During the drain a worker goes on with what it has. It takes no more, and has nothing else to wait for.
        lifecycle.at_drain.append(worker.take_no_more)
        async with worker.running():
            yield {KEY: connections}
