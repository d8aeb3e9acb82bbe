"""The app of a worker's process: it runs jobs, and answers the same probes as a replica."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from mcp_swarm import downstream
from mcp_swarm.components.job import Job
from mcp_swarm.components.lifespan import Lifespan
from mcp_swarm.http.access_log import AccessLog, access_lines
from mcp_swarm.http.uvicorn.connections import KEY, Connections
from mcp_swarm.process.lifecycle import Lifecycle
from mcp_swarm.process.log_buffer import LogBuffer
from mcp_swarm.process.replica import end_regardless, process_lifespan, replica_name
from mcp_swarm.process.start import StartReport
from mcp_swarm.routes.health import health_routes
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.shared.redis import connect
from mcp_swarm.tracing.tracing import tracing


def worker_app(jobs: Mapping[str, Job], settings: Settings, buffer: LogBuffer, opened: Lifespan) -> ASGIApp:
    """What uvicorn serves in a worker's process. `opened` opens what authors' jobs need.

    Raises:
        StartupError: there are no jobs, or nothing that a worker could take them from.
    """
    name = replica_name(settings)
    traced = tracing(settings, name)
    check(jobs, settings)
    lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
    downstream.configure(settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        from mcp_swarm.jobs import backend  # noqa: PLC0415  # with Docket, which only processes with jobs import
        from mcp_swarm.jobs.worker import JobWorker  # noqa: PLC0415

        connections = Connections(settings)
        around, flushed = process_lifespan(settings, lifecycle), traced.running() if traced else nullcontext()
        with lifecycle.ending():
            async with around, flushed, downstream.closing(), opened(), backend.opened(settings) as queue:
                worker = JobWorker(jobs, queue, settings, name, lifecycle.cut)
                # During the drain a worker goes on with the jobs that it has, and takes no others.
                lifecycle.at_drain.append(worker.take_no_more)
                async with worker.running():
                    yield {KEY: connections}

    routes = Starlette(routes=health_routes(lifecycle), lifespan=lifespan)
    return AccessLog(StartReport(routes), name, access_lines(settings, name, buffer))


def check(jobs: Mapping[str, Job], settings: Settings) -> None:
    """Raise `StartupError` if a worker would have nothing to do, or nothing that it could be given."""
    if settings.jobs_in_process:
        raise StartupError("JOBS_URL=memory://: a worker needs the Redis of the replicas; set JOBS_URL=redis://…")
    if not jobs:
        raise StartupError(f"MCP_COMPONENTS={','.join(settings.mcp_components)}: there are no jobs for a worker")
    connect(settings)  # which only looks at the URL
