"""The command `anyreplica autoscale`, which lets the numbers of replicas in a Swarm follow the load."""

import argparse
import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.types import ASGIApp

from anyreplica.all_settings import Settings
from anyreplica.autoscale.autoscaler import Autoscaler
from anyreplica.autoscale.metrics import AutoscaleMetrics
from anyreplica.autoscale.page import metrics_client
from anyreplica.autoscale.service import DockerApi
from anyreplica.cli.run import serve
from anyreplica.features.metrics.page import metrics_route
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.process import logs
from anyreplica.process.event_loop import background_task
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.replica import process_lifespan, replica_name
from anyreplica.process.start import EXIT_REFUSED, StartReport
from anyreplica.routes.health import health_routes
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

_SECONDS = 5.0
"""Pause between two checks, in seconds."""
_ENGINE = "unix:///var/run/docker.sock"


def main(arguments: Sequence[str]) -> int:
    """Scale services until a signal stops the process and return the exit code.

    Raises:
        StartupError: The autoscaler can't start; the message names the reason.
    """
    options = _parser().parse_args(arguments)
    try:
        docker = DockerApi(options.docker)
    except ValueError as error:
        raise StartupError(f"--docker: {error}") from None
    settings = Settings.load()
    logs.configure(settings, replica_name(settings))
    mode = "Dry run: nothing is changed. " if options.dry_run else ""
    print(
        f"{mode}Looking at the services of {options.docker} every {_SECONDS:g} s; "
        f"metrics and probes are on port {settings.mcp_port}.",
        flush=True,
    )
    return serve(settings, _app(settings, docker, dry_run=options.dry_run))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica autoscale",
        description="""\
Let the numbers of replicas in a Docker Swarm follow the load. The command reads
the metrics of each replica, and scales the services that have these labels:
  anyreplica.autoscale=true
  anyreplica.autoscale.min=3         smallest number of replicas
  anyreplica.autoscale.max=10        largest number of replicas
  anyreplica.autoscale.target=0.6    share of its capacity that a replica uses
  anyreplica.autoscale.down-seconds=300   time before replicas are removed
More labels are in the guide "Scale automatically". METRICS_TOKEN is the token
of the replicas' metrics.""",
        epilog=f"""\
examples:
  anyreplica autoscale --dry-run
  anyreplica autoscale --docker tcp://docker-api:2375

exit codes:
  0  stopped by a signal
  2  wrong arguments
  {EXIT_REFUSED}  the autoscaler cannot start; standard error says why
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--docker",
        metavar="URL",
        default=os.environ.get("DOCKER_HOST") or _ENGINE,
        help=f"Docker's API on a manager of the Swarm (default: DOCKER_HOST or {_ENGINE})",
    )
    parser.add_argument("--dry-run", action="store_true", help="log the decisions and change nothing")
    return parser


def _app(settings: Settings, docker: DockerApi, *, dry_run: bool) -> ASGIApp:
    """Return the app that serves the probes and the metrics, and scales the services while it runs."""
    lifecycle, metrics = Lifecycle(0), AutoscaleMetrics()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Connections]]:
        async with metrics_client(settings.metrics_token) as replicas:
            autoscaler = Autoscaler(docker, replicas.read, metrics, dry_run=dry_run)
            async with process_lifespan(settings, lifecycle), background_task(_check_forever(autoscaler)):
                lifecycle.has_started = True
                yield {KEY: Connections(settings)}
            await docker.close()

    routes = [*health_routes(lifecycle, settings), metrics_route([metrics], [], settings.metrics_token)[0]]
    return StartReport(Starlette(routes=routes, lifespan=lifespan))


async def _check_forever(autoscaler: Autoscaler) -> None:
    while True:
        try:
            await autoscaler.check(time.monotonic())
        except Exception:  # a fault must not end the checks; nothing would say so
            logger.exception("A check of the services has failed")
        await asyncio.sleep(_SECONDS)
