"""Whether calls are traced; the start of that, and its end. Nothing of the SDK is imported where they aren't."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.tracing.middleware import Edge

if TYPE_CHECKING:
    from mcp_swarm.tracing.export import Export

logger = logging.getLogger(__name__)

_LAST_SECONDS = 2.0
"""Time for the last spans to be sent."""

_ABSENT = (
    "OTEL_EXPORTER_OTLP_ENDPOINT: traces need packages that aren't installed; "
    "pip install 'mcp-swarm[traces]', or build the image with --build-arg EXTRAS=traces"
)


class Tracing:
    """Makes and sends spans, in this process from now on.

    Args:
        export: sends them.
    """

    def __init__(self, export: "Export") -> None:
        self._export = export

    def around(self, app: ASGIApp) -> ASGIApp:
        """The app, with a span of each request."""
        return Edge(app)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send what spans there are when the block is left, for `_LAST_SECONDS` at most."""
        try:
            yield
        finally:
            await self._send_last()

    async def _send_last(self) -> None:
        if self._export.is_away:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            self._export.stop()
            with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
                loop.call_soon_threadsafe(done.set)

        # No thread of a pool: Python would wait for its end, and the SDK waits for a collector up to 30 s.
        threading.Thread(target=send, name="last-spans", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await done.wait()


def tracing(settings: Settings, replica: str) -> Tracing | None:
    """Begin to trace, if the settings want it; once in a process, ahead of whatever asks whether calls are traced.

    Raises:
        StartupError: the SDK isn't installed, or doesn't take one of its own variables.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return None
    check(settings)
    from mcp_swarm.tracing import export  # noqa: PLC0415  # it takes 0.2 s

    try:
        return Tracing(export.begin(settings, replica))
    except ValueError as error:
        raise StartupError(f"OTEL_…: {error}") from None


def check(settings: Settings) -> None:
    """Look whether traces could be sent.

    Raises:
        StartupError: as `tracing`.
    """
    if settings.otel_exporter_otlp_endpoint:
        try:
            from mcp_swarm.tracing import export  # noqa: PLC0415
        except ImportError:
            raise StartupError(_ABSENT) from None
        export.check_protocol()
