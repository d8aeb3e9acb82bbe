"""The last spans of a process. This module does not import the SDK of OpenTelemetry."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from opentelemetry import trace

_LAST_SECONDS = 2.0
"""Time limit for the last spans at the end of the process, in seconds."""


async def send_last(send: Callable[[], object]) -> None:
    """Call a function that sends the remaining spans. Wait for it, but not for longer than `_LAST_SECONDS`."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        send()
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits for this event
            loop.call_soon_threadsafe(done.set)

    # Not a thread of a pool: Python waits until such a thread ends, and the SDK waits up to 30 s for a collector.
    threading.Thread(target=run, name="last-spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_SECONDS):
            await done.wait()


@asynccontextmanager
async def flushing() -> AsyncIterator[None]:
    """Send the remaining spans of another tracer provider on exit.

    The author or `opentelemetry-instrument` has set this provider. It sends its spans when Python exits. But a replica
    of `run --replicas` is a forked process, and Python does not call the exit functions of the parent process there.
    """
    try:
        yield
    finally:
        # The SDK's class has this method, and the class that is there without tracing has not.
        flush = getattr(trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            await send_last(flush)
