"""The probes of liveness (`LIVENESS_PATH`) and readiness (`READINESS_PATH`)."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica.process.lifecycle import Lifecycle
from anyreplica.settings.paths import PathSettings


def health_routes(lifecycle: Lifecycle, paths: PathSettings) -> list[Route]:
    """Return the routes of the probes.

    The liveness probe answers 200 as long as the event loop runs. The readiness probe answers 200 if the replica is
    ready, otherwise 503.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(_: Request) -> Response:
        ready = lifecycle.state == "ready"
        return JSONResponse({"status": lifecycle.state}, 200 if ready else 503, None if ready else {"Retry-After": "1"})

    return [Route(paths.liveness_path, healthz), Route(paths.readiness_path, readyz)]
