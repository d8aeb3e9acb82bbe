"""The probes of liveness (`LIVENESS_PATH`) and readiness (`READINESS_PATH`)."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica.components.marks import Check
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.settings.replica import PathSettings

logger = logging.getLogger(__name__)


_FRESH = 2.0
"""Time for which a result is reused, in seconds. The checks run at most this often, even with many requests."""


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


class DeepHealth:
    """`/health/deep`: the checks of the services that the components need. They run at the same time.

    The route is for people and dashboards. Do not use it in an orchestrator: if a shared service fails, the check fails
    in all replicas at once, and a restart of all replicas does not repair the service.
    """

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._result: dict[str, Any] = {}
        self._until = 0.0
        self._checking = asyncio.Lock()

    def route(self) -> Route:
        """Return the route. It answers 200 if all checks succeed, otherwise 503."""

        async def show(_: Request) -> Response:
            result = await self._run_checks()
            return JSONResponse(result, 200 if result["status"] == "ok" else 503)

        return Route("/health/deep", show)

    async def _run_checks(self) -> dict[str, Any]:
        async with self._checking:
            if time.monotonic() >= self._until:
                found = await asyncio.gather(*map(_outcome, self._checks))
                status = "ok" if all(each["status"] == "ok" for each in found) else "failing"
                names = [each.name for each in self._checks]
                self._result = {"status": status, "checks": dict(zip(names, found, strict=True))}
                self._until = time.monotonic() + _FRESH
            return self._result


async def _outcome(check: Check) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(check.seconds):
            await check.fn()
        status = "ok"
    except TimeoutError:
        status = f"no answer within {check.seconds:g} s"
    except Exception as error:  # noqa: BLE001  # the check may be code of a component
        logger.warning("Check %r failed: %s: %s", check.name, type(error).__name__, error)
        status = "failing"
    return {"status": status, "ms": round((time.perf_counter() - began) * 1000, 1)}
