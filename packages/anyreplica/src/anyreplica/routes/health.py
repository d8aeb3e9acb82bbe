"""The probes of liveness (`/healthz`) and readiness (`/readyz`)."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica.process.lifecycle import Lifecycle


def health_routes(lifecycle: Lifecycle) -> list[Route]:
    """Return the routes of the probes.

    `/healthz` (alias `/health`) answers 200 as long as the event loop runs. `/readyz` answers 200 if the replica is
    ready, otherwise 503.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(_: Request) -> Response:
        ready = lifecycle.state == "ready"
        return JSONResponse({"status": lifecycle.state}, 200 if ready else 503, None if ready else {"Retry-After": "1"})

    return [Route("/healthz", healthz), Route("/health", healthz), Route("/readyz", readyz)]
