"""Progress of requests to clients: a client reports it at any replica, and the replica that asks gets it."""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from mcp.shared.dispatcher import ProgressFnT
from pydantic_core import from_json

from anyreplica.features.sessions.open_round import Question
from anyreplica.features.sessions.session import Session
from anyreplica.http.responses import encode
from anyreplica.process.background_task import background_task
from anyreplica.shared.notifier import Notifier

logger = logging.getLogger(__name__)

_LONGEST = 4096
"""Maximum size of a report, in bytes. A larger report is dropped."""
_MOST_WAITING = 100
"""Maximum number of reports that wait for a slow tool. Further reports are dropped."""


class ClientProgress:
    """The progress that clients report about requests of the server (MCP 2025-11-25, Utilities, "Progress")."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def pass_on(self, session: Session, params: Mapping[str, Any]) -> None:
        """Pass a report of a client on to the replica whose request it belongs to. An invalid report is dropped.

        Args:
            params: the params of `notifications/progress`. The progress token is the id of the request.
        """
        match params:
            case {"progressToken": str() as token, "progress": int() | float() as progress}:
                message = params.get("message")
                numbers = _finite(progress), _finite(params.get("total"))
                report = encode([*numbers, message if isinstance(message, str) else None])
                if numbers[0] is not None and len(report) <= _LONGEST and "\n" not in token:
                    await self._notifier.send(_name(session, token), report.decode())

    @contextlib.asynccontextmanager
    async def reported(self, session: Session, identity: str, on_progress: ProgressFnT) -> AsyncIterator[None]:
        """Call `on_progress` with each report about a request, in their order, inside the `async with` block."""
        reports: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)

        def take(report: str) -> None:
            with contextlib.suppress(asyncio.QueueFull):
                reports.put_nowait(report)

        async def deliver() -> None:
            while True:
                progress, total, message = from_json(await reports.get())
                try:
                    await on_progress(progress, total, message)
                except Exception:
                    logger.exception("A tool's function for progress has failed")

        with self._notifier.receiving(_name(session, identity), take):
            async with background_task(deliver()):
                yield


def _finite(value: object) -> float | None:
    """Return a number of JSON as a finite float; return None for anything else."""
    with contextlib.suppress(OverflowError):
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def with_progress(question: Question) -> Question:
    """Return a request that asks the client for progress. The progress token is the id of the request."""
    params = question.params or {}
    meta = {**params.get("_meta", {}), "progressToken": question.identity}
    return replace(question, params={**params, "_meta": meta})


def _name(session: Session, identity: str) -> str:
    return f"progress:{session.key}:{identity}"
