"""A replica whose event loop stands still serves nobody: say where it stands, and make room for a new one."""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)

EXIT_STALLED = 70
"""Exit code of a replica that the watchdog ended (EX_SOFTWARE of sysexits.h)."""

_TICK = 0.5
_MARGIN = 2 * _TICK
"""Seconds by which the backstop comes later, so that the watchdog, which says more, comes first."""


@asynccontextmanager
async def watch(stall_seconds: float) -> AsyncIterator[None]:
    """End the process when its event loop hasn't turned for `stall_seconds` (0: never).

    Nothing within a process can interrupt an `async` function that blocks, and the supervisor or orchestrator
    replaces a process that ended much sooner than one that only fails its health checks. Time in which the whole
    process was stopped (SIGSTOP, a paused container) doesn't count up to twice `stall_seconds` and a little: then the
    backstop in C, whose clock runs on, ends the process.
    """
    if not stall_seconds:
        yield
        return
    beats = 0
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def beat() -> None:
        nonlocal beats
        beats += 1
        if not stop.is_set():
            # From C, for what holds the interpreter's lock, too (a regular expression that backtracks for ever).
            faulthandler.dump_traceback_later(2 * stall_seconds + _MARGIN, exit=True, file=sys.__stderr__ or sys.stderr)
            loop.call_later(_TICK, beat)

    def guard() -> None:
        seen, missed = -1, 0.0
        while not stop.wait(_TICK):
            missed = missed + _TICK if beats == seen else 0.0
            seen = beats
            if missed > stall_seconds:
                faulthandler.cancel_dump_traceback_later()  # or it would end the process in the middle of this
                logger.critical("The event loop has stood still for %g s; ending this replica. Threads:", stall_seconds)
                faulthandler.dump_traceback(sys.__stderr__ or 2)
                os._exit(EXIT_STALLED)

    beat()
    threading.Thread(target=guard, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        faulthandler.cancel_dump_traceback_later()
