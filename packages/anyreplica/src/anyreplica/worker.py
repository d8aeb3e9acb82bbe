"""The ASGI app of a worker process: the worker runs jobs and answers the same probes as a replica."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from anyreplica import downstream
from anyreplica.components.job import Job
from anyreplica.components.lifespan import Lifespan
from anyreplica.downstream.exchange.entry_file import read
from anyreplica.http.access_log import AccessLog, access_lines
from anyreplica.http.paths import quiet_paths
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.log_buffer import LogBuffer
from anyreplica.process.replica import end_regardless, process_lifespan, replica_name
from anyreplica.process.start import StartReport
from anyreplica.routes.health import health_routes
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.extras import require_extra
from anyreplica.shared import publish
from anyreplica.shared.events import RedisBus
from anyreplica.shared.redis import connect
from anyreplica.tracing.tracing import tracing


def worker_app(
    jobs: Mapping[str, Job], tasks: Sequence[str], settings: Settings, buffer: LogBuffer, opened: Lifespan
) -> ASGIApp:
    """Return the app that uvicorn serves in a worker process.

    Args:
        jobs: The jobs of the server, by name.
        tasks: The names of the tools with `task=True`. FastMCP's tasks extension runs them, inside of `opened`.
        settings: The settings of the worker.
        buffer: The buffer of the log.
        opened: Enters the lifespans of the components, such as database connections.

    Raises:
        StartupError: The server has no jobs and no such tools, or `JOBS_URL` names no queue that a worker can use.
    """
    name = replica_name(settings)
    traced = tracing(settings, name)
    check(jobs, tasks, settings)
    lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
    downstream.configure(settings)
    redis = connect(settings)
    if redis is not None:
        publish.use(RedisBus.of(redis, settings.mcp_name))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        from anyreplica.jobs import backend  # noqa: PLC0415  # it imports Docket, which only processes with jobs need
        from anyreplica.jobs.worker import JobWorker  # noqa: PLC0415

        connections = Connections(settings)
        around, flushed = process_lifespan(settings, lifecycle), traced.running() if traced else nullcontext()
        closed = nullcontext() if redis is None else aclosing(redis)
        with lifecycle.ending():
            async with around, flushed, closed, downstream.closing(), opened(), backend.opened(settings) as queue:
                if not jobs:
                    yield {KEY: connections}
                    return
                worker = JobWorker(jobs, queue, settings, name, lifecycle.cut)
                # During the drain a worker finishes the jobs that it runs and takes no others.
                lifecycle.at_drain.append(worker.take_no_more)
                async with worker.running():
                    yield {KEY: connections}

    routes = Starlette(routes=health_routes(lifecycle, settings), lifespan=lifespan)
    return AccessLog(StartReport(routes), name, access_lines(settings, name, buffer), quiet_paths(settings))


def check(jobs: Mapping[str, Job], tasks: Sequence[str], settings: Settings) -> None:
    """Raise `StartupError` if a worker has nothing to run, lacks packages, or has a setting that is not valid."""
    if settings.jobs_in_process:
        raise StartupError("JOBS_URL=memory://: a worker needs the Redis of the replicas; set JOBS_URL=redis://…")
    if not jobs and not tasks:
        packages = ",".join(settings.mcp_components)
        where = f"MCP_COMPONENTS={packages}: these packages have" if packages else "The server has"
        raise StartupError(f"{where} no jobs, and no tool has task=True; a worker needs at least one of them")
    require_extra("jobs", "the worker")
    connect(settings)  # it only checks the URL
    if settings.downstream_tokens_file is not None:
        read(settings.downstream_tokens_file)  # it only checks the file
