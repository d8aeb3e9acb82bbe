"""The ASGI app of a worker process: the worker runs jobs and answers the same probes as a replica."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp

from anyreplica.feature import PreparedServer
from anyreplica.features.jobs.server_tasks import offer_tasks, task_tools
from anyreplica.features.jobs.service import JobService, check_url
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.http.access_log import AccessLog, access_lines
from anyreplica.http.request_record import quiet_paths
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.mcp.compat import shared_dependencies
from anyreplica.process.lifecycle import Lifecycle, end_regardless
from anyreplica.process.replica import process_lifespan, replica_name
from anyreplica.process.start import StartReport
from anyreplica.routes.health import health_routes
from anyreplica.settings.errors import StartupError, require_extra
from anyreplica.shared import publish
from anyreplica.shared.events import RedisBus
from anyreplica.shared.redis import connect


def worker_app(server: PreparedServer, settings: JobSettings) -> ASGIApp:
    """Return the app that uvicorn serves in a worker process.

    Raises:
        StartupError: The server has no jobs and no tools with `task=True`, or `JOBS_URL` names no queue that a worker
            can use.
    """
    jobs = server.components.jobs
    name = replica_name(settings)
    beside = [each for feature in server.features for each in feature.in_worker(name)]
    tasks = task_tools(server.mcp)
    if tasks:  # FastMCP's tasks extension runs them, inside of the lifespan of the server
        offer_tasks(server.mcp, JobService({}, settings, "", lambda: None), settings)
    check(server, settings, tasks)
    lifecycle = Lifecycle(settings.drain_seconds, end_regardless)
    redis = connect(settings)
    if redis is not None:
        publish.use_bus(RedisBus.of(redis, settings.mcp_name))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        from anyreplica.features.jobs import backend  # noqa: PLC0415  # it imports Docket, which few processes need
        from anyreplica.features.jobs.worker import JobWorker  # noqa: PLC0415

        with lifecycle.ending():
            async with AsyncExitStack() as stack:
                enter = stack.enter_async_context
                await enter(process_lifespan(settings, lifecycle))
                for each in beside:
                    await enter(each)
                if redis is not None:
                    await enter(aclosing(redis))
                await enter(server.opened())
                if tasks:
                    await enter(shared_dependencies.lifespan(server.mcp))
                queue = await enter(backend.opened(settings))
                if jobs:
                    worker = JobWorker(jobs, queue, settings, name, lifecycle.terminate)
                    # During the drain a worker finishes the jobs that it runs and takes no others.
                    lifecycle.on_drain.append(worker.stop_claiming)
                    await enter(worker.running())
                lifecycle.has_started = True
                yield {KEY: Connections(settings)}

    routes = Starlette(routes=health_routes(lifecycle, settings), lifespan=lifespan)
    return AccessLog(StartReport(routes), name, [access_lines(settings, name, server.buffer)], quiet_paths(settings))


def check(server: PreparedServer, settings: JobSettings, tasks: Sequence[str]) -> None:
    """Raise `StartupError` if a worker has nothing to run, lacks packages, or has a setting that is not valid."""
    if settings.jobs_in_process:
        raise StartupError("JOBS_URL=memory://: a worker needs the Redis of the replicas; set JOBS_URL=redis://…")
    if not server.components.jobs and not tasks:
        packages = ",".join(settings.mcp_components)
        where = f"MCP_COMPONENTS={packages}: these packages have" if packages else "The server has"
        raise StartupError(f"{where} no jobs, and no tool has task=True; a worker needs at least one of them")
    require_extra("jobs", "the worker")
    check_url(settings)
    connect(settings)  # it only checks the URL
    for feature in server.features:
        feature.check_worker()
