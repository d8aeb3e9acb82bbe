"""`/health/deep`: is there what tools need. For people and dashboards.

Never for an orchestrator: what all replicas need is away for all of them at once, and ending them all mends nothing.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_swarm.components.checks import Check
from mcp_swarm.jobs.service import JobService

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_SECONDS = 2.0
"""Time of the server's own."""
_FRESH = 2.0
"""Seconds for which an answer is good: however many ask, what is checked is asked this often."""


class DeepHealth:
    """Looks at everything, all at once."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._told: dict[str, Any] = {}
        self._until = 0.0
        self._looking = asyncio.Lock()

    def route(self) -> Route:
        """200 if everything is there, else 503."""

        async def show(_: Request) -> Response:
            told = await self._look()
            return JSONResponse(told, 200 if told["status"] == "ok" else 503)

        return Route("/health/deep", show)

    async def _look(self) -> dict[str, Any]:
        async with self._looking:
            if time.monotonic() >= self._until:
                found = await asyncio.gather(*map(_outcome, self._checks))
                status = "ok" if all(each["status"] == "ok" for each in found) else "failing"
                names = [each.name for each in self._checks]
                self._told = {"status": status, "checks": dict(zip(names, found, strict=True))}
                self._until = time.monotonic() + _FRESH
            return self._told


def needed(redis: "Redis | None", service: JobService) -> list[Check]:
    """Checks of what the server itself needs, where it needs it."""
    checks = [Check("redis", redis.ping, _SECONDS)] if redis is not None else []
    if not service.off and not service.settings.jobs_in_process:
        checks.append(Check("jobs", service.counts, _SECONDS))
    return checks


async def _outcome(check: Check) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(check.seconds):
            await check.fn()
        status = "ok"
    except TimeoutError:
        status = f"no answer within {check.seconds:g} s"
    except Exception as error:  # noqa: BLE001  # somebody else's code
        logger.warning("Check %r: %s: %s", check.name, type(error).__name__, error)
        status = "failing"
    return {"status": status, "ms": round((time.perf_counter() - began) * 1000, 1)}
